"""The errors made on purpose: each takes one check, one flush or one step of the order of writes away."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One error: `old`, which stands once in `file` of the package, becomes `new`; one of `tests` must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_PLACES = ("tests/unit/formats/test_codex_places.py",)
_KILLED_PLACES = ("tests/faults/test_pointers.py",)
_PACK = ("tests/unit/store/test_pack.py",)
_STRANGERS = ("tests/attacks/test_packs_of_strangers.py",)
_SECRETS = ("tests/attacks/test_packs_of_secrets.py",)
_PACKING = ("tests/unit/store/test_packing.py",)
_VERIFY = ("tests/unit/operations/test_verify.py",)
_SPLICE = ("tests/unit/core/test_splice.py",)
_COMMIT = ("tests/unit/store/test_commit.py",)
_DRAIN = ("tests/unit/store/test_drain.py",)
_RECOVER = ("tests/unit/store/test_recover.py",)
_LOCK = ("tests/unit/store/test_lock.py",)
_SWAP = ("tests/attacks/test_rewritten_at_the_swap.py",)
_PLANTED = ("tests/attacks/test_planted_files.py",)
_NAMES_BESIDE = ("tests/attacks/test_planted_names.py",)
_PUT = ("tests/unit/store/test_disk.py",)
_SOURCES = ("tests/unit/policy/test_sources.py",)
_FOLDER = ("tests/unit/store/test_folder.py",)
_TWO_PLACES = ("tests/attacks/test_store_in_two_places.py",)
_BUDGET = ("tests/cli/test_budget.py",)
_DUE = ("tests/unit/operations/test_compact_due.py",)
_GOALS = ("tests/cli/test_goals.py",)
_USER_COMMANDS = ("tests/unit/operations/test_user_commands.py",)
_COMPACT = ("tests/unit/operations/test_compact.py",)
_SUMMARIZER = ("tests/unit/operations/test_summarizer.py",)
_DOCUMENTS = ("tests/unit/core/test_checkpoint_documents.py",)
_CUT = ("tests/unit/checkpoints/test_cut.py",)
_GIT = ("tests/unit/store/test_git.py",)
_STRANGER = ("tests/attacks/test_git_of_a_stranger.py",)
_FORGET = ("tests/cli/test_forget_choices.py",)
_OTHER_BRANCH = ("tests/attacks/test_forget_on_another_branch.py",)
_UNDO = ("tests/unit/operations/test_undo.py",)
_RECORDS = ("tests/unit/store/test_records.py",)
_METADATA = ("tests/unit/store/test_disk.py",)
_NAMES = ("tests/attacks/test_times_out_of_range.py::test_a_name_longer_than_any_record",)
_DEEP = ("tests/attacks/test_deep_values.py",)
_MARKER = ("tests/unit/core/test_marker.py",)
_QUOTED = ("tests/attacks/test_marker_in_tool_output.py::test_restoring_depends_on_no_marker",)
_INDEX = ("tests/unit/compressors/test_names.py",)
_OF_RUN = ("tests/unit/pipeline/test_previews.py",)
_SMALL = ("tests/unit/compressors/test_least_gain.py",)
_INSTRUCTIONS = ("tests/unit/compressors/test_instructions.py",)
_SUBAGENTS = ("tests/unit/compressors/test_subagents.py",)
_CLOUD = ("tests/cli/test_cloud.py",)
_CLOUD_PACKS = ("tests/cli/test_cloud_packs.py",)
_LONG_PREVIEWS = ("tests/unit/operations/test_previews.py",)

MUTANTS = (
    # The check of a rewritten session.
    Mutant("verify compares no lines", "pipeline/plan.py", "for number in changed:", "for number in ():", _VERIFY),
    Mutant(
        "verify lets a protected line change",
        "pipeline/plan.py",
        "standing[number] is Standing.PROTECTED",
        "False",
        _VERIFY,
    ),
    Mutant(
        "verify lets more than mirrors go from a protected line",
        "pipeline/plan.py",
        " and rest(before) == rest(after)",
        "",
        _VERIFY,
    ),
    Mutant("verify does not count the lines", "pipeline/plan.py", "len(before) != len(after)", "False", _VERIFY),
    Mutant(
        "verify does not look at calls and results",
        "pipeline/plan.py",
        "callers(before) != callers(after)",
        "False",
        _VERIFY,
    ),
    Mutant(
        "verify lets lines change that the plan does not name",
        "pipeline/plan.py",
        "was.digest != now.digest and number not in changed",
        "False",
        _VERIFY,
    ),
    Mutant("verify lets a line grow", "pipeline/plan.py", "now.size >= was.size", "False", _VERIFY),
    Mutant(
        "a spliced line is not compared with what was intended",
        "core/splice.py",
        'if parsed != document:\n        raise CannotSplice("the spliced',
        'if False:\n        raise CannotSplice("the spliced',
        _SPLICE,
    ),
    Mutant(
        "what a format forbids is changed",
        "pipeline/rewrite.py",
        "not view.form.may_change(entry, path, value)",
        "False",
        ("tests/unit/pipeline/test_rewrite.py",),
    ),
    Mutant(
        "a second run is not thought of",
        "pipeline/run.py",
        "if restless := self._verify(attempt, sink, left_alone):",
        "if restless := self._verify(attempt, sink, left_alone) and set():",
        ("tests/unit/operations/test_compress.py", "tests/properties/test_hypothesis.py"),
    ),
    Mutant(
        "two originals share a rewritten line",
        "pipeline/rewrite.py",
        "if kept != number and self._originals[kept] != self._originals[number]:",
        "if False:",
        ("tests/unit/operations/test_compress.py",),
    ),
    Mutant(
        "what stands behind the last line that changes is lost",
        "core/jsonl.py",
        "            gap += size\n    yield from _gaps(file, gap)\n",
        "            gap += size\n",
        ("tests/unit/operations/test_compress.py",),
    ),
    # When a run acts, and how much it takes.
    Mutant(
        "a run that prunes too little is written",
        "pipeline/summary.py",
        "if saved >= least else",
        "if True else",
        ("tests/properties/test_pruning.py",),
    ),
    Mutant(
        "the newest tool output is pruned",
        "compressors/redundancy.py",
        "        and (number, block.path) not in window\n",
        "",
        ("tests/unit/compressors/test_pruning.py",),
    ),
    Mutant(
        "a request from before a run counts",
        "pipeline/budget.py",
        "answers.behind is None or not is_since(newest, run)",
        "answers.behind is None",
        ("tests/unit/pipeline/test_judge.py",),
    ),
    Mutant(
        "a log is added to whatever lies there",
        "operations/log.py",
        "appending(file, refuse_other)",
        "appending(file, lambda fd: None)",
        ("tests/cli/test_budget.py",),
    ),
    # What is read back.
    Mutant(
        "originals and journal are not read back",
        "store/commit.py",
        "found != self.added.hexdigest() or ",
        "",
        _COMMIT,
    ),
    Mutant(
        "the new file is not read back",
        "store/swap.py",
        " or found != self._hash.digest()",
        "",
        _COMMIT,
    ),
    Mutant(
        "an original is not compared with its SHA-256",
        "store/originals.py",
        "sha256(line).hexdigest() != sha256_hex",
        "False",
        ("tests/unit/store/test_originals.py",),
    ),
    Mutant(
        "a replaced value is not compared with its record",
        "operations/show.py",
        "len(content) == block.bytes and block.digest in digests_of(content)",
        "True",
        ("tests/unit/operations/test_restore.py", "tests/faults/test_store_attacks.py"),
    ),
    Mutant(
        "verify looks at no seal",
        "operations/verify.py",
        "        damage.refuse_if_changed(store, journal)\n",
        "",
        ("tests/faults/test_store_attacks.py",),
    ),
    Mutant(
        "originals are cut to the length that another journal says",
        "store/damage.py",
        "if not belongs:",
        "if False:",
        ("tests/unit/store/test_damage.py",),
    ),
    # What is flushed.
    Mutant(
        "originals and journal are not flushed",
        "store/commit.py",
        "        disk.system.fsync(self._fd)\n        if hasattr",
        "        if hasattr",
        _COMMIT,
    ),
    Mutant(
        "the name of a new file beside the session is not flushed",
        "store/commit.py",
        "        if self._is_new:\n            disk.flush_folder(self._path.parent)\n",
        "",
        _COMMIT,
    ),
    Mutant(
        "the new file is not flushed",
        "store/swap.py",
        "                disk.system.fsync(draft.fd)\n",
        "",
        _COMMIT,
    ),
    Mutant(
        "the replacement is not flushed",
        "store/swap.py",
        "    draft.discard()\n    disk.flush_folder(session.path.parent)\n",
        "    draft.discard()\n",
        _COMMIT,
    ),
    Mutant(
        "the link to the old file is not flushed",
        "store/swap.py",
        "    session.was_linked()\n    disk.flush_folder(session.path.parent / FOLDER)\n",
        "    session.was_linked()\n",
        _COMMIT,
    ),
    Mutant(
        "what is forgotten comes back",
        "store/recover.py",
        "            disk.flush_folder(store.folder)\n        folder.tidy_after(store)\n",
        "            pass\n        folder.tidy_after(store)\n",
        _RECOVER,
    ),
    # The order of writes.
    Mutant(
        "the new file is in place before its backup is certain",
        "store/commit.py",
        """        self._journal.sync()

        # Commit the change: the new file takes the session's place, and the old one keeps a late link.
        old = put_in_place(session, self._draft)
""",
        """        old = put_in_place(session, self._draft)
        self._journal.sync()
""",
        _COMMIT,
    ),
    Mutant(
        "the journal is certain before the originals are",
        "store/commit.py",
        "        self._originals.sync()\n",
        "",
        _COMMIT,
    ),
    Mutant(
        "a draft is on disk before it is known to pay",
        "store/swap.py",
        "if self._pending_size >= (_HELD if self.fd < 0 else disk.BUFFER):",
        "if True:",
        _COMMIT,
    ),
    Mutant(
        "originals are on disk before the run is known to pay",
        "store/commit.py",
        "if self.held > _HELD:",
        "if True:",
        _COMMIT,
    ),
    Mutant(
        "originals are on disk before there is a journal",
        "store/commit.py",
        "        if self._before is not None:\n            self._before.open()\n",
        "",
        _COMMIT,
    ),
    Mutant(
        "packed originals are forgotten",
        "store/commit.py",
        "        self._originals.write()\n        self._draft.check()\n",
        "        self._draft.check()\n",
        _COMMIT,
    ),
    Mutant(
        "a run that does not pay is committed",
        "pipeline/run.py",
        "if attempt.gain < least:",
        "if False:",
        ("tests/unit/operations/test_compress.py::test_a_gain_that_is_too_small_writes_nothing",),
    ),
    Mutant(
        "originals are taken back before the journal that names them",
        "store/commit.py",
        "        self._journal.cut_back()\n        self._originals.cut_back()\n",
        "        self._originals.cut_back()\n        self._journal.cut_back()\n",
        _COMMIT,
    ),
    Mutant(
        "nothing is taken back",
        "store/commit.py",
        "        for step in (self._take_back, *close):\n",
        "        for step in close:\n",
        _COMMIT,
    ),
    Mutant(
        "a torn append is not cut back",
        "store/recover.py",
        "elif size is not None and size > committed:",
        "elif False:",
        _RECOVER,
    ),
    Mutant(
        "old metadata is lost",
        "store/swap.py",
        "                disk.copy_metadata(session.fd, draft.fd, newest=newest)\n",
        "",
        _COMMIT,
    ),
    # The live agent.
    Mutant(
        "the old file has no second name when it is replaced",
        "store/swap.py",
        "            _name_links(session, states, before)\n            # What",
        "            # What",
        (*_COMMIT, *_DRAIN),
    ),
    Mutant(
        "what is appended before the swap is lost",
        "store/swap.py",
        "    if end > taken:\n",
        "    if False:\n",
        (*_COMMIT, *_DRAIN),
    ),
    Mutant(
        "what comes late is not brought over",
        "store/commit.py",
        "        drain(session, old, links)\n",
        "",
        _DRAIN,
    ),
    Mutant(
        "a late link of a killed run is not looked at",
        "store/recover.py",
        "    for inode in late_links(session.path):\n",
        "    for inode in ():\n",
        _RECOVER,
    ),
    Mutant(
        "a file that comes out in place of the session is not looked at",
        "store/swap.py",
        "if (found := source.lstat().st_ino) != expected:",
        "if (found := expected) != expected:",
        _SWAP,
    ),
    Mutant(
        "a file that was rewritten as it was replaced is not put back",
        "store/commit.py",
        "        if kept_open or rewritten:\n",
        "        if kept_open:\n",
        _SWAP,
    ),
    Mutant(
        "lines are added to a document",
        "store/lock.py",
        "same and (now.st_size == self.size or not self.is_document())",
        "same",
        _SWAP,
    ),
    Mutant(
        "a late link is believed without its seal",
        "store/late_links.py",
        "if hmac.compare_digest(seal, _seal(session.name, fields)):",
        "if True:",
        _PLANTED,
    ),
    Mutant(
        "a late link is believed whatever file it is on",
        "store/late_links.py",
        " and there.st_ino == inode",
        "",
        _RECOVER,
    ),
    Mutant(
        "a store from a clone stays open to others",
        "store/commit.py",
        "        disk.make_private(fd)\n",
        "",
        _PLANTED,
    ),
    Mutant(
        "forget does not finish the run that was killed before",
        "store/recover.py",
        "            _carry_over_all(session)\n        for path in",
        "            pass\n        for path in",
        ("tests/attacks/test_forget_leaves_nothing.py",),
    ),
    Mutant(
        "a store with other names is written to",
        "store/commit.py",
        "refuse_other_names(self._path, fd)\n",
        "pass\n",
        _NAMES_BESIDE,
    ),
    Mutant(
        "processes import from the working folder",
        "operations/batch.py",
        '    os.environ[name] = "1"\n',
        "",
        _NAMES_BESIDE,
    ),
    Mutant(
        "a session that another program replaced is replaced",
        "store/lock.py",
        "        if not _same_file(self.path, now):\n",
        "        if False:\n",
        (*_COMMIT, *_LOCK),
    ),
    Mutant(
        "the lock may be on a file that is gone",
        "store/lock.py",
        "if lock(fd) and _same_file(path, os.fstat(fd)):",
        "if lock(fd):",
        _LOCK,
    ),
    Mutant(
        "a session in use is replaced",
        "store/lock.py",
        "wait_until_free(session.fd, APPEND_SECONDS) is Held.YES",
        "False",
        _LOCK,
    ),
    Mutant(
        "a session with other hard links is replaced",
        "store/lock.py",
        "if links > 1 and links > 1 + ",
        "if False and links > 1 + ",
        _LOCK,
    ),
    Mutant(
        "links are followed",
        "store/lock.py",
        '("O_NOFOLLOW", "O_CLOEXEC",',
        '("O_CLOEXEC",',
        _LOCK,
    ),
    # A file that is no session.
    Mutant(
        "a settings file is not flushed",
        "store/disk.py",
        "            system.fsync(fd)\n            system.replace(",
        "            system.replace(",
        _PUT,
    ),
    Mutant(
        "its name is not flushed",
        "store/disk.py",
        "            raise\n    flush_folder(path.parent)\n",
        "            raise\n",
        _PUT,
    ),
    Mutant(
        "a file that must be new is not flushed",
        "store/disk.py",
        "            system.fsync(fd)\n            system.link(",
        "            system.link(",
        _PUT,
    ),
    Mutant(
        "the name of a file that must be new is not flushed",
        "store/disk.py",
        "            remove(temporary)\n    flush_folder(path.parent)\n",
        "            remove(temporary)\n",
        _PUT,
    ),
    Mutant(
        "a file that must be new replaces one",
        "store/disk.py",
        "system.link(temporary, path, follow_symlinks=False)",
        "system.replace(temporary, path)",
        _PUT,
    ),
    # Whose policy counts, and what it may say.
    Mutant(
        "a file near a session says anything",
        "policy/sources.py",
        "if not source.near or key.only_user is None:",
        "if True:",
        _SOURCES,
    ),
    Mutant(
        "a clone says where originals go",
        "policy/model.py",
        'Folder, OnlyUser("--backup-dir", "puts originals elsewhere", " where a command has it", by_all=True)',
        "Folder, None",
        _SOURCES,
    ),
    Mutant(
        "a filter changes what is committed",
        "cli/pre_commit.py",
        'values["filter"] not in (*_OFF, *_EXACT_FILTERS)',
        "False",
        ("tests/cli/test_staging.py",),
    ),
    Mutant(
        "git merges two stores",
        "store/folder.py",
        "* -text -ident -merge",
        "* -text -ident",
        ("tests/unit/store/test_merges.py",),
    ),
    Mutant(
        "no run is due after a compaction",
        "pipeline/triage.py",
        "or _is_compacted(path, left)",
        "",
        ("tests/unit/pipeline/test_triage.py",),
    ),
    Mutant(
        "a small session with a late line is skipped",
        "pipeline/triage.py",
        "None if said and has_leftovers(path) else said",
        "said",
        ("tests/attacks/test_late_line_of_a_small_session.py",),
    ),
    Mutant(
        "a clone's .gitignore shows originals",
        "store/folder.py",
        "    if shown or not is_ours(folder):\n",
        "    if True:\n",
        _FOLDER,
    ),
    Mutant("a second store is begun", "store/layout.py", "if there is None or holds(store):", "if True:", _TWO_PLACES),
    Mutant(
        "anybody's run counts as the user's",
        "store/layout.py",
        "is_known = known or store.is_ours or is_signed(seen, record)",
        "is_known = True",
        ("tests/attacks/test_stores_of_branches.py",),
    ),
    Mutant(
        "the user signs with no key",
        "store/machine.py",
        'digest(key(), whole.digest(), "sha256")',
        'digest(b"", whole.digest(), "sha256")',
        ("tests/unit/store/test_machine.py",),
    ),
    Mutant("anybody's policy counts", "policy/sources.py", "if not _is_owned(os.lstat(path))", "if False", _SOURCES),
    Mutant("others write the user's policy", "policy/sources.py", "found.st_mode & forbidden", "False", _SOURCES),
    Mutant(
        "a relative configuration counts", "policy/sources.py", "file if file.is_absolute() else None", "file", _SOURCES
    ),
    Mutant(
        "a configuration that others write is changed",
        "policy/sources.py",
        "os.path.lexists(file) and not self._user",
        "False",
        _GOALS,
    ),
    Mutant(
        "the safety valve is put off",
        "cli/compact.py",
        "{} if found.is_valve else _changes",
        "_changes",
        _GOALS,
    ),
    Mutant(
        "a command reaches the journal",
        "policy/model.py",
        '"beforeCommand", "afterCommand", "summarizer")',
        '"summarizer")',
        _USER_COMMANDS,
    ),
    Mutant(
        "a summary comes before clearing",
        "pipeline/budget.py",
        "action if decide(left, policy)[0] == Action.NONE else Action.COMPACT",
        "Action.COMPACT",
        _DUE,
    ),
    Mutant(
        "an answer stands unchecked",
        "operations/old_part.py",
        "if why := why_not(text, self.room):",
        "if why := '':",
        _SUMMARIZER,
    ),
    Mutant(
        "a command is asked of a session that is left",
        "operations/compact.py",
        "if not rehearsed.is_compacted:",
        "if False:",
        _USER_COMMANDS,
    ),
    Mutant("a session is compacted that is not due", "operations/compact.py", "or _not_due(self._budget)", "", _DUE),
    Mutant(
        "what was recorded counts behind a checkpoint",
        "pipeline/run.py",
        "run = run._replace(restored=False)",
        "run = None",
        _DUE,
    ),
    Mutant(
        "what a checkpoint stands for waits",
        "pipeline/run.py",
        "due = force or follows_checkpoint",
        "due = force",
        _DUE,
    ),
    # A checkpoint: its check, the order in which it is written, and how it comes out.
    Mutant(
        "no draft of a checkpoint is checked",
        "operations/draft.py",
        "draft.check(self.known, cut, self.where)",
        "draft.read = self.read",
        _COMPACT,
    ),
    Mutant(
        "an old line is still read behind a checkpoint", "operations/draft.py", "if old & live:", "if False:", _COMPACT
    ),
    Mutant(
        "a kept line is not read behind a checkpoint",
        "operations/draft.py",
        "if not kept <= live:",
        "if False:",
        _COMPACT,
    ),
    Mutant(
        "a checkpoint need not repeat what is kept", "operations/draft.py", "if ours <= sum(", "if 0 > sum(", _COMPACT
    ),
    Mutant(
        "half a line is added to",
        "operations/draft.py",
        "if jsonl.parse(self._raw(last)) is None:",
        "if False:",
        _COMPACT,
    ),
    Mutant(
        "what a document loses is not kept",
        "operations/draft.py",
        "removed, dropped = draft.keep(), ",
        "removed, dropped = None, ",
        _COMPACT,
    ),
    Mutant(
        "a summary in a document that was written anew counts as gone",
        "operations/checkpoints.py",
        "if _HEAD in raw and len(self.taken) < len(standing):",
        "if False:",
        _COMPACT,
    ),
    Mutant(
        "a summary without its store is not refused",
        "operations/checkpoints.py",
        "return is_compacted and has_summary",
        "return False",
        _COMPACT,
    ),
    Mutant(
        "a number is known by its digits alone",
        "core/documents.py",
        'if b"{" not in new:',
        "if False:",
        _COMPACT,
    ),
    Mutant(
        "an LF of ours stays",
        "operations/checkpoints.py",
        'before.removesuffix(b"\\n") if ends and unended else before',
        "before",
        ("tests/unit/operations/test_compact.py",),
    ),
    Mutant(
        "what hangs on a checkpoint stays there",
        "operations/checkpoints.py",
        "                lines = map(hanging.rehung, lines)\n",
        "",
        _COMPACT,
    ),
    Mutant(
        "an edit is undone to what the agent wrote",
        "operations/restore.py",
        "before = record.sha256 if is_on_top else before",
        "before = original.hex() if is_on_top else before",
        _UNDO,
    ),
    Mutant(
        "a run goes alone from under another that rewrote its lines",
        "operations/restore.py",
        "if is_unknown or (is_mine and not is_on_top):",
        "if is_unknown:",
        _UNDO,
    ),
    Mutant(
        "a checkpoint goes from under a later run",
        "operations/restore.py",
        "if newer and journal.checkpoints_of(runs):",
        "if False:",
        _UNDO,
    ),
    Mutant(
        "what is rewritten again stays a run's that was taken back",
        "pipeline/rewrite.py",
        "self.changed[number] = [edit.encode(), *records]",
        "self.changed[number] = [edit.encode(), *records] if row is None else []",
        _UNDO,
    ),
    Mutant(
        "an original that is kept is kept again",
        "pipeline/rewrite.py",
        "if self._keeps and place is None:",
        "if self._keeps:",
        _UNDO,
    ),
    Mutant(
        "a run that died is in place",
        "store/journal.py",
        "self._in_place.pop(number - 1, None)",
        "pass",
        _UNDO,
    ),
    Mutant(
        "an older summary loses a line with a newer one",
        "operations/checkpoints.py",
        "if ours and not any(others[name] for name in ours):",
        "if ours:",
        _UNDO,
    ),
    Mutant(
        "an older state behind an undo is not known",
        "pipeline/reading.py",
        "{journal.run_of(row) for row in found.rows.values()}",
        "()",
        ("tests/unit/operations/test_restore.py",),
    ),
    Mutant(
        "what repeats rewritten messages stays",
        "operations/checkpoints.py",
        "return frozenset(names | {self._as_written[each] for each in names & self._as_written.keys()})",
        "return frozenset(names)",
        _COMPACT,
    ),
    Mutant(
        "short bytes are looked for anywhere",
        "core/documents.py",
        "if len(made) >= _PLAINLY and raw.count(made) == 1:",
        "if raw.count(made) == 1:",
        _DOCUMENTS,
    ),
    Mutant(
        "bytes that stand twice are taken out",
        "core/documents.py",
        "if len(made) >= _PLAINLY and raw.count(made) == 1:",
        "if len(made) >= _PLAINLY:",
        _DOCUMENTS,
    ),
    Mutant(
        "a document's end moves what was made",
        "core/documents.py",
        "places = [start, len(raw) - undo.size + start]",
        "places = [start]",
        _DOCUMENTS,
    ),
    Mutant("a cut parts a call from its result", "checkpoints/cut.py", "close(called[name], position)", "pass", _CUT),
    Mutant(
        "a share is cut again and again",
        "operations/compact.py",
        "is_same_share = chosen.keep is CutRule.SHARE and latest.record.rule == CutRule.SHARE",
        "is_same_share = False",
        _COMPACT,
    ),
    Mutant("another user's log is written", "operations/log.py", "found.st_uid != os.geteuid()", "False", _BUDGET),
    # What no repository's configuration runs, and what git is asked before originals go.
    Mutant("git runs a repository's fsmonitor", "store/git.py", '"core.fsmonitor=false"', '"core.x=false"', _STRANGER),
    Mutant("git runs a repository's hooks", "store/git.py", '"core.hooksPath=/dev/null"', '"core.x=false"', _STRANGER),
    Mutant("git takes a folder for a bare repository", "store/git.py", "=explicit", "=all", _STRANGER),
    Mutant(
        "git fetches what a partial clone lacks",
        "store/git.py",
        '    "GIT_NO_LAZY_FETCH": "1",\n    "GIT_ALLOW_PROTOCOL": "none",\n',
        "",
        _STRANGER,
    ),
    Mutant("git obeys the environment of a hook", "store/git.py", "() if at else _OF_A_COMMIT", "_OF_A_COMMIT", _GIT),
    Mutant("git is not told the commit at hand", "store/git.py", "() if at else _OF_A_COMMIT", "()", _GIT),
    Mutant("git is not asked for the reflog", "store/git.py", '"--reflog", ', "", _GIT),
    Mutant("git is not asked for all branches", "store/git.py", '"--all", "--reflog", ', '"HEAD", ', _GIT),
    Mutant("git follows one side of a merge", "store/git.py", '"--full-history", ', "", _GIT),
    Mutant("git is not asked for any index", "store/git.py", "at), *_indexes(top, at)):", "at),):", _GIT),
    Mutant("git is not asked for the indexes of other work trees", "store/git.py", "(common, *folders)", "()", _GIT),
    Mutant(
        "damaged originals are the trace of a killed run",
        "store/recover.py",
        "first_damaged(store.originals, lengths.originals)) is not None:",
        "None) is not None:",
        ("tests/unit/store/test_recover.py",),
    ),
    Mutant(
        "where git does not answer nothing is known",
        "store/git.py",
        "file: error for file",
        "file: error for _ in () for file",
        _GIT,
    ),
    Mutant("forget --gone does not ask git", "operations/forget.py", "git.known(places).items()", "()", _OTHER_BRANCH),
    Mutant(
        "a store is unneeded because the user says so",
        "operations/forget.py",
        "if only.unneeded and (why := _needed(session, there, len(lost) + left, refer)):",
        "if False:",
        _FORGET,
    ),
    Mutant(
        "forget takes what changed meanwhile",
        "operations/forget.py",
        "if session.stat.st_mtime > only.since:",
        "if False:",
        _FORGET,
    ),
    Mutant(
        "a session that was moved is gone",
        "operations/forget.py",
        "found |= _moved({place: path for place, path in places.items() if path not in found}, policy_of)",
        "pass",
        _FORGET,
    ),
    Mutant(
        "a session in a pack is gone",
        "operations/forget.py",
        "if packed.place in places:",
        "if False:",
        _FORGET,
    ),
    Mutant(
        "forget takes a session for gone",
        "operations/forget.py",
        "if only != ANY and not only.gone:",
        "if False:",
        _FORGET,
    ),
    # What tells an older state from damage, and where originals may be read.
    Mutant(
        "a changed line is passed over",
        "operations/verify.py",
        "if (record := missing.of(raw)) is not None:",
        "if (record := missing.of(raw)) is None and record is not None:",
        ("tests/unit/operations/test_restore.py",),
    ),
    Mutant(
        "a restore that left changed lines says that all is back",
        "operations/restore.py",
        "self.command = Command.RESTORE_MARKERS",
        "pass",
        ("tests/unit/operations/test_restore.py",),
    ),
    Mutant(
        "a header chooses where originals are read",
        "pipeline/relatives.py",
        "path if path.parent in near else",
        "path if near else",
        ("tests/attacks/test_originals_of_the_family.py",),
    ),
    # What a preview keeps.
    Mutant(
        "names have twice the budget",
        "compressors/names.py",
        "budget = max(self._policy.preview_share * self._size",
        "budget = max(2 * self._policy.preview_share * self._size",
        _INDEX,
    ),
    Mutant(
        "names alone have the budget once more",
        "compressors/names.py",
        "for_names = budget * (1 - _WITH_NEIGHBORS)",
        "for_names = budget",
        _INDEX,
    ),
    Mutant(
        "one result may show as much as it likes",
        "compressors/names.py",
        "min(self._most - ends, len(data) // 2)",
        "(len(data) // 2)",
        _INDEX,
    ),
    Mutant(
        "a short result may show more than half of itself",
        "compressors/names.py",
        "min(self._most - ends, len(data) // 2)",
        "(self._most - ends)",
        _INDEX,
    ),
    Mutant(
        "a name is shown in every result",
        "compressors/names.py",
        "if name in shown:",
        "if name in shown and not alone:",
        _INDEX,
    ),
    Mutant(
        "a name that a piece shows is shown again",
        "compressors/names.py",
        "shown.update(piece.translate(_PARTS).split())",
        "pass",
        _INDEX,
    ),
    Mutant(
        "what stays is not known",
        "compressors/names.py",
        'self._known.update(words, b" ".join(dotted).translate(_PARTS).split())',
        "pass",
        _INDEX,
    ),
    Mutant(
        "lines that stay are not read for their names",
        "pipeline/rewrite.py",
        'names.keep(b"\\n".join(kept))\n    results',
        "results",
        _OF_RUN,
    ),
    Mutant(
        "results come the oldest first", "pipeline/rewrite.py", "sorted(plan, reverse=True)", "sorted(plan)", _OF_RUN
    ),
    Mutant(
        "equal texts get other names in each run",
        "pipeline/rewrite.py",
        "if not replaced.isdisjoint(digests):",
        "if False:",
        ("tests/unit/operations/test_compress.py",),
    ),
    Mutant("dead history counts as known", "pipeline/rewrite.py", " and number not in dead", "", _OF_RUN),
    Mutant(
        "a line that loses its screen copy counts as unknown",
        "pipeline/rewrite.py",
        "all(takes_nothing(change) for change in plan.get(number, ()))",
        "number not in plan",
        _OF_RUN,
    ),
    Mutant(
        "what an agent writes above a result has names",
        "pipeline/rewrite.py",
        "preamble.match(text) if preamble else None",
        "None",
        _OF_RUN,
    ),
    Mutant("an index repeats what its preview shows", "compressors/names.py", " if piece not in shown", "", _INDEX),
    Mutant(
        "the oldest copy of instructions stays",
        "compressors/base.py",
        "newest[made.file, made.part] = number",
        "newest.setdefault((made.file, made.part), number)",
        _INSTRUCTIONS,
    ),
    Mutant(
        "a read that failed is the newest copy",
        "compressors/base.py",
        " and not self.lines.facts[number].failed",
        "",
        _INSTRUCTIONS,
    ),
    Mutant(
        "a read of nothing is the newest copy", "compressors/base.py", "size > SMALLEST_LIMIT and ", "", _INSTRUCTIONS
    ),
    Mutant(
        "a result in the line of its call has none",
        "compressors/base.py",
        "if name and call.name == name",
        "if not name",
        _INSTRUCTIONS,
    ),
    Mutant(
        "names go before failures", "compressors/results.py", "with_failures != without:", "not with_failures:", _OF_RUN
    ),
    Mutant(
        "all reports stay", "compressors/base.py", "Purpose.AGENT]][-_MOST_REPORTS:]", "Purpose.AGENT]]", _SUBAGENTS
    ),
    Mutant("a block goes for one byte", "compressors/preview.py", "LEAST_GAIN = 512", "LEAST_GAIN = 1", _SMALL),
    Mutant(
        "what stays counts as removable",
        "compressors/results.py",
        "block.size > policy.result_limit and block.size - MARKER_BYTES - ends_of(block.size, policy) >= LEAST_GAIN",
        "block.size > policy.result_limit",
        _SMALL,
    ),
    Mutant("an index counts as a line", "core/marker.py", " + has_index(text)", "", _MARKER),
    Mutant(
        "a preview over the limit is offered again",
        "compressors/results.py",
        "if view.holds_ours(block) else block.size <= view.policy.result_limit:",
        "if False else block.size <= view.policy.result_limit:",
        _LONG_PREVIEWS,
    ),
    # What a stranger's text says.
    Mutant(
        "a number in a marker is of any form",
        "core/marker.py",
        '_COUNT = r"[0-9]{1,3}(?:,[0-9]{3}){0,6}"',
        '_COUNT = r"[0-9,]+"',
        _MARKER,
    ),
    Mutant(
        "a marker that cannot be read stops a restore",
        "pipeline/relatives.py",
        "RecursionError):\n        return []",
        "RecursionError):\n        raise",
        _QUOTED,
    ),
    # What no record can hold.
    Mutant(
        "a run is written that cannot be read", "store/records.py", "if reads_back(run.encode()):", "if True:", _RECORDS
    ),
    Mutant(
        "a block is written that cannot be read",
        "pipeline/rewrite.py",
        "if any(len(record) > LONGEST_RECORD for record in records):",
        "if False:",
        _NAMES,
    ),
    Mutant("a time before 1970 is lost", "store/disk.py", "newest or old.st_mtime_ns", "newest", _METADATA),
    Mutant(
        "values may be nested as deep as they like",
        "core/jsonl.py",
        "DEEPEST: Final = 200",
        "DEEPEST: Final = 2000",
        _DEEP,
    ),
    Mutant(
        "arguments in a text may be nested so",
        "formats/values.py",
        "is_deep(written.encode(",
        "not (written.encode(",
        _DEEP,
    ),
    Mutant("a deep call passes the guard", "hooks/guard.py", "if is_deep(raw):", "if False:", _DEEP),
    # Object stores: the conditions and the order of the puts.
    Mutant("an object is put whatever it is by now", "store/objects.py", "mode=self._mode", 'mode="overwrite"', _CLOUD),
    Mutant(
        "originals that another run has put are cut off",
        "operations/cloud.py",
        "        _refuse_if_leased(originals, store)\n",
        "        pass\n",
        _CLOUD,
    ),
    Mutant(
        "a session is put before its store",
        "operations/cloud.py",
        "for each in (originals, journal, session):",
        "for each in (session, originals, journal):",
        _CLOUD,
    ),
    Mutant("a first run puts no journal first", "operations/cloud.py", 'journal.put(b"")', "pass", _CLOUD),
    Mutant(
        "a pack in a bucket counts unread",
        "store/places.py",
        "is_whole, seen = objects.holds(archive, draft, _NOT_TAKEN), None",
        "is_whole, seen = True, None",
        _CLOUD_PACKS,
    ),
    Mutant(
        "what changed as it was packed is brought back older",
        "operations/pack.py",
        "            if outcome.error is not None:\n                left.",
        "            if False:\n                left.",
        _CLOUD_PACKS,
    ),
    Mutant(
        "a store is emptied before its session",
        "operations/pack.py",
        '            here.copy.session.put(b"")\n            _empty_store(here.store)\n',
        '            _empty_store(here.store)\n            here.copy.session.put(b"")\n',
        _CLOUD_PACKS,
    ),
    # Packs.
    Mutant(
        "a pack is not read back",
        "store/packing.py",
        "                    reader.check(entry)\n            seen =",
        "                    pass\n            seen =",
        _PACKING,
    ),
    Mutant(
        "a packed session is not compared before it goes",
        "store/moves.py",
        "return there == members.keys() and all(is_same(each, member) for each, member in members.items())",
        "return there == members.keys()",
        _PACKING,
    ),
    Mutant(
        "a session that is put aside is not looked at again",
        "store/moves.py",
        "if in_use or (now.st_ino,",
        "if False and (now.st_ino,",
        _PACKING,
    ),
    Mutant(
        "a session that is put aside is looked at before it is asked who has it open",
        "store/moves.py",
        "            in_use = wait_until_free(session.fd, HOLD_SECONDS) is Held.YES\n"
        "            was, now = session.stat, aside.lstat()\n",
        "            was, now = session.stat, aside.lstat()\n"
        "            in_use = wait_until_free(session.fd, HOLD_SECONDS) is Held.YES\n",
        _PACKING,
    ),
    Mutant("a pack leads out of its folder", "store/pack.py", 'step in ("", ".", "..")', 'step == ""', _PACK),
    Mutant(
        "a session comes back over a link",
        "store/places.py",
        "if not is_below(self.root, path):",
        "if False:",
        _PACKING,
    ),
    Mutant(
        "another session in its place takes the packed one's",
        "operations/pack.py",
        "State.LEFT if is_same(path, entry.members[0], begun=True) else None",
        "State.LEFT",
        ("tests/unit/operations/test_pack.py",),
    ),
    Mutant(
        "a copy of our head is taken for ours",
        "operations/old_part.py",
        "merge.identity(summary) in known if known else merge.looks_ours(summary)",
        "bool(merge.identity(summary))",
        ("tests/unit/operations/test_old_part.py",),
    ),
    Mutant(
        "what a compaction repeats counts again behind ours",
        "operations/old_part.py",
        "(is_repeated or before.ours)",
        "is_repeated",
        ("tests/unit/operations/test_old_part.py",),
    ),
    Mutant(
        "headers of the environment are sent",
        "operations/summarizer.py",
        "for name in set(request.headers) - _HEADERS:",
        "for name in ():",
        _SUMMARIZER,
    ),
    Mutant(
        "what cannot be written is no failure",
        "core/process.py",
        "if (failure := _unwritten()) and code not in (EXIT_CODE, 5):",
        "if False:",
        ("tests/cli/test_streams.py",),
    ),
    Mutant(
        "what was compacted just now is cut again",
        "operations/compact.py",
        "latest.is_newest(chosen):\n            is_same_share",
        "False:\n            is_same_share",
        ("tests/properties/test_compact_again.py",),
    ),
    Mutant(
        "what was said since a checkpoint is not counted behind compress",
        "store/journal.py",
        "if len(self.runs) > 1 and not self.runs[-1].writes_checkpoint:",
        "if len(self.runs) > 1:",
        ("tests/properties/test_compact_again.py",),
    ),
    Mutant(
        "previews say how long a summary may be",
        "operations/draft.py",
        "self.read.lines[number].reads + self._shortened(number)",
        "self.read.lines[number].reads",
        _COMPACT,
    ),
    Mutant(
        "a pack keeps what is forgotten",
        "operations/forget.py",
        "    for pack, entry in copies if not dry_run else ():",
        "    for pack, entry in ():",
        _SECRETS,
    ),
    Mutant("a signal leaves a copy", "core/process.py", "range(3 if maker", "range(0 if maker", _SECRETS),
    Mutant(
        "what cannot be deleted holds up other sessions",
        "store/moves.py",
        "            with suppress(OSError):\n",
        "            with suppress():\n",
        _SECRETS,
    ),
    Mutant("a bomb is read", "store/pack.py", "if member.start + member.size > most:", "if False:", _STRANGERS),
    Mutant("a pack brings a program", "store/moves.py", "member.mode & 0o644", "member.mode", _STRANGERS),
    Mutant(
        "a pack brings code",
        "operations/packed.py",
        'if not path.endswith((".jsonl"',
        'if False and ((".jsonl"',
        _STRANGERS,
    ),
    Mutant("a pack brings settings", "operations/packed.py", "    if is_hidden and", "    if False and", _STRANGERS),
    Mutant(
        "a pack of another user counts",
        "store/places.py",
        "    if os.path.lexists(file) and not is_own(file):\n        what",
        "    if False:\n        what",
        _STRANGERS,
    ),
    Mutant("any file of a pack comes back", "store/moves.py", "check(drafts[first])", "pass", _PACKING),
    Mutant(
        "what points into a larger session is changed in the order of a smaller one",
        "formats/codex_places.py",
        "if places.size > was.st_size:",
        "if places.size < was.st_size:",
        _KILLED_PLACES,
    ),
    Mutant(
        "no place follows to the new session",
        "formats/codex_places.py",
        "            for each in indexes:\n                each.change(places, was_read=os.path.samestat(was, new))\n",
        "",
        _PLACES,
    ),
    Mutant(
        "the places in forks stay",
        "formats/codex_places.py",
        "                    _point(children, places)\n                    _commit(indexes)\n",
        "                    _commit(indexes)\n",
        _PLACES,
    ),
    Mutant(
        "a fork without room is written over",
        "formats/codex_places.py",
        "        self._make_room(fd)\n",
        "",
        _PLACES,
    ),
    Mutant(
        "a session is rewritten that its agent has loaded",
        "formats/codex_places.py",
        "if not lock(own):",
        "if False:",
        _PLACES,
    ),
    Mutant(
        "a place that we do not know stays where it was",
        "formats/codex_index.py",
        'or {(table, column) for table, column in found if "offset" in column} - known',
        "",
        _PLACES,
    ),
    Mutant(
        "a stranger says where the index is",
        "formats/codex_places.py",
        'if b"sqlite_home" in config:',
        "if False:",
        _PLACES,
    ),
    Mutant(
        "what an earlier version left wrong stays wrong",
        "formats/codex_places.py",
        "            if each and each.wrong(when):",
        "            if False:",
        _PLACES,
    ),
)
