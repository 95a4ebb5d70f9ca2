"""The action for GitHub's workflows, its steps run by a shell as the runner does."""
