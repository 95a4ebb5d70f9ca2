"""The errors made on purpose: each takes one check, one flush or one step of the order of writes away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One error: `old`, which stands once in `file` of the package, becomes `new`; one of `tests` must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _in(file: str, *tests: str) -> Callable[..., list[Mutant]]:
    """Return what makes the errors in a file that the same tests must notice, each a name, `old` and `new`."""
    return lambda *errors: [Mutant(name, file, old, new, tests) for name, old, new in errors]


_STRANGERS = "tests/attacks/test_packs_of_strangers.py"
_SECRETS = "tests/attacks/test_packs_of_secrets.py"
_PACKING = "tests/unit/store/test_packing.py"
_COMMIT = "tests/unit/store/test_commit.py"
_RECOVER = "tests/unit/store/test_recover.py"
_SWAP = "tests/attacks/test_rewritten_at_the_swap.py"
_DUE = "tests/unit/operations/test_compact_due.py"
_COMPACT = "tests/unit/operations/test_compact.py"
_UNDO = "tests/unit/operations/test_undo.py"
_DEEP = "tests/attacks/test_deep_values.py"
_ROWS = "tests/cli/test_databases.py"
_GONE = "tests/cli/test_databases_gone.py"
_EACH_AGENT = "tests/cli/test_databases_of_agents.py"
_CLAW = "tests/cli/test_databases_openclaw.py"

MUTANTS = (
    # Sessions in databases.
    *_in("store/tables.py", f"{_EACH_AGENT}::test_a_row_that_changes_meanwhile_stays")(
        (
            "a row that changed meanwhile is written over",
            'session_id = ? AND data = CAST(? AS TEXT)"',
            "session_id = ? AND CAST(? AS TEXT) <> ''\"",
        ),
    ),
    *_in("store/rows.py", f"{_EACH_AGENT}::test_a_database_that_is_not_known_is_refused")(
        (
            "a database with triggers is worked on",
            " and not {text(name) for (name,) in triggers} & {*each.columns, each.events.table}",
            "",
        ),
        (
            "an id may stand in a table twice",
            "self._columns_of(table) == columns",
            "{*self._columns_of(table)} == {*columns}",
        ),
        ("any tables are taken for those of the agent", "self._columns_of(table) == columns", "True"),
    ),
    *_in("store/rows.py", f"{_ROWS}::test_bytes_stay_free_inside_while_an_agent_has_it_open")(
        ("a database that is open is written anew", "if not _is_alone(path):", "if False:"),
    ),
    *_in("store/tables.py", f"{_ROWS}::test_events_are_not_put_where_the_agent_numbers_anew")(
        ("events get numbers that the agent will give", " AND seq >= ?3)", ")"),
    ),
    *_in("store/tables.py", f"{_CLAW}::test_every_row_comes_back_and_what_came_since_stays")(
        ("the event goes from which numbers go on", " AND {_OLDER}", ""),
        ("notes of a packed row stay with another text", ", navigation_json = NULL", ""),
    ),
    *_in("store/tables.py", f"{_CLAW}::test_a_row_that_the_agent_changed_stays")(
        ("a row is packed again over what the agent wrote", " AND event_json = coalesce(?3, unpacked(?4))", ""),
    ),
    *_in("operations/database.py", f"{_CLAW}::test_every_row_comes_back_and_what_came_since_stays")(
        ("packed rows go before they are kept", "iter(rows)", "iter(())"),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_unneeded_events_are_those_in_the_database")(
        (
            "events that are nowhere else are unneeded",
            "if not opened.holds_events(row.name, _read(kept)):",
            "if False:",
        ),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_a_session_that_changes_while_it_is_restored")(
        ("a run whose rows could not be written is noted", "_cut_back(path, stores)", "pass"),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_forget_leaves_no_secret_in_the_database")(
        ("forgotten bytes stay in the database", "_inside(vacuum(path))", '""'),
    ),
    *_in("pipeline/discover.py", f"{_ROWS}::test_no_session_is_searched_for_in_our_own_folders")(
        ("sessions in our own folders are gone", "if FOLDER in Path(os.path.realpath(folder)).parts:", "if False:"),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_forget_leaves_a_file")(
        ("a file that another session names is deleted", " and among.get(each, set()) <= {row.name}", ""),
        ("a file with anything in it is deleted", "and any(each in content for each in ends)", ""),
        ("files are deleted through a link", "folder.is_dir() and not folder.is_symlink()", "folder.is_dir()"),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_forget_names_no_session_that_has_the_originals_itself")(
        ("a session with its own originals needs others", "found[name] = unnamed_in(journal, found[name])", "pass"),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_a_database_is_compressed_and_every_row_comes_back")(
        ("events go before they are kept", "_keep(path, name, lines)", "_keep(path, name, iter(()))"),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_a_dry_run_changes_no_byte")(
        ("a dry run takes events", "if events.rows and not dry_run:", "if events.rows:"),
    ),
    *_in("operations/database.py", f"{_ROWS}::test_planted_events_are_not_put_back")(
        (
            "events are in a place that a clone can bring",
            "return rows_of(database) / FOLDER / folder_name()",
            "return rows_of(database)",
        ),
    ),
    # What is kept of a database that is gone.
    *_in("operations/database.py", _GONE)(
        ("a store goes whose session is in another database", "and opened.has(each.name)}", "and False}"),
        ("a store goes that an unreadable database needs", "if each.parent.parent == path.parent}", "if False}"),
        (
            "databases are not searched for below a folder",
            "found += sorted(map(Path(here).joinpath, names))",
            "found += sorted(map(Path(here).joinpath, names)) if here == str(path) else []",
        ),
        ("sessions are not searched for in agents' databases", "*table.databases()]", "]"),
        (
            "a database on a failing disk is gone",
            "if gone_too and is_missing(database):",
            "if gone_too and not os.path.lexists(database):",
        ),
        ("stores are deleted through a link", "for each in (folder, folder / FOLDER):", "for each in (folder,):"),
        (
            "forks in a renamed database are not seen",
            "in _databases_around([database.parent], named) if is_gone",
            "in [] if is_gone",
        ),
        (
            "events of a lost key are not found",
            "kept.update(*map(_event_files, _event_folders(database)))",
            "kept.update(_own_events(database))",
        ),
        ("a database that is gone is written anew", '"" if is_missing(path) else ', ""),
    ),
    *_in("operations/forget.py", _GONE)(
        ("the store of a database in git goes", "in_git = _in_git(databases)", "in_git: dict[Path, str] = {}"),
    ),
    *_in("store/recover.py", _GONE)(
        ("the folder of a database that is gone stays", "folder.tidy(where)\n", "pass\n"),
    ),
    # The check of a rewritten session.
    *_in("pipeline/plan.py", "tests/unit/pipeline/test_check.py")(
        ("verify compares no lines", "for number in changed:", "for number in ():"),
        ("verify lets a protected line change", "view.standing[number] is Protection.PROTECTED", "False"),
        ("verify lets more than mirrors go from a protected line", " and rest(before) == rest(after)", ""),
        ("verify does not count the lines", "len(before) != len(after)", "False"),
        ("verify does not look at calls and results", "callers(before) != callers(after)", "False"),
        (
            "verify lets lines change that the plan does not name",
            "was.digest != now.digest and number not in changed",
            "False",
        ),
        ("verify lets a line grow", "now.size >= was.size", "False"),
    ),
    *_in("core/splice.py", "tests/unit/core/test_splice.py")(
        (
            "a spliced line is not compared with what was intended",
            'if parsed != document:\n        raise CannotSplice("the spliced',
            'if False:\n        raise CannotSplice("the spliced',
        ),
    ),
    *_in("pipeline/rewrite.py", "tests/unit/pipeline/test_rewrite.py")(
        ("what a format forbids is changed", "not view.form.may_change(entry, path, value)", "False"),
    ),
    *_in(
        "pipeline/run.py",
        "tests/unit/operations/test_compress.py::test_a_line_that_would_never_come_to_rest_is_left_alone",
    )(
        (
            "a second run is not thought of",
            "if restless := self._verify(attempt, sink, left_alone):",
            "if restless := self._verify(attempt, sink, left_alone) and set():",
        ),
    ),
    *_in(
        "pipeline/rewrite.py",
        "tests/unit/operations/test_compress.py::test_copies_around_a_line_that_would_become_the_same_are_settled_in_one_run",
    )(
        (
            "two originals share a rewritten line",
            "if kept != number and self._originals[kept] != self._originals[number]:",
            "if False:",
        ),
    ),
    # When a run acts, and how much it takes.
    *_in(
        "pipeline/totals.py",
        "tests/properties/test_pruning.py::test_a_run_that_saves_the_model_too_little_writes_nothing",
    )(
        ("a run that prunes too little is written", "if saved >= least else", "if True else"),
    ),
    *_in("compressors/redundancy.py", "tests/unit/compressors/test_pruning.py")(
        ("the newest tool output is pruned", "        and (number, block.path) not in window\n", ""),
    ),
    *_in("pipeline/budget.py", "tests/unit/pipeline/test_judge.py")(
        (
            "a request from before a run counts",
            "found.behind is None or not is_since(newest, run)",
            "found.behind is None",
        ),
    ),
    *_in("operations/log.py", "tests/cli/test_budget.py::test_nothing_is_added_to_what_is_no_log")(
        ("a log is added to whatever lies there", "appending(file, refuse_other)", "appending(file, lambda fd: None)"),
    ),
    # What is read back.
    *_in("store/commit.py", f"{_COMMIT}::test_a_disk_that_corrupts_the_backup")(
        ("originals and journal are not read back", "found != self.added.hexdigest() or ", ""),
    ),
    *_in("store/swap.py", f"{_COMMIT}::test_a_disk_that_lies_about_what_it_wrote")(
        ("the new file is not read back", " or found != self._hash.digest()", ""),
    ),
    *_in("store/originals.py", "tests/unit/store/test_originals.py")(
        ("an original is not compared with its SHA-256", "sha256(line).hexdigest() != sha256_hex", "False"),
    ),
    *_in(
        "pipeline/rewrite.py", "tests/unit/operations/test_restore.py::test_what_the_journal_says_of_a_value_must_be_so"
    )(
        (
            "a replaced value is not compared with its record",
            "len(content) == block.bytes and block.digest in digests_of(content)",
            "True",
        ),
    ),
    *_in(
        "operations/verify.py",
        "tests/attacks/test_originals_of_the_family.py::test_another_relative_s_damage_costs_nothing",
    )(
        ("what one relative lacks fails the others", "wrong.append(error)", "raise error"),
    ),
    *_in("operations/verify.py", "tests/unit/store/test_committed.py::test_verify_names_what_git_will_delete")(
        (
            "a relative's commits are taken for there",
            "if any(isinstance(line.place, InBlob) for line, _ in kept):",
            "if False:",
        ),
    ),
    *_in(
        "pipeline/relatives.py",
        "tests/attacks/test_originals_of_the_family.py::test_a_damaged_journal_costs_no_other_session",
    )(
        ("a relative's damaged journal stops the others", "damaged.append(error)", "raise"),
    ),
    *_in("store/journal.py", "tests/unit/store/test_damage.py")(
        ("a line of which a value's record is damaged comes back", "journal.drop_line()", "pass"),
        ("values of a damaged record's line go to the line before it", "lost = skips = True", "lost = True"),
        ("a bad record that was added counts as ours", "ours.\n                seen.update(raw)", "ours."),
    ),
    *_in("operations/restore.py", "tests/unit/store/test_damage.py")(
        ("a restore without damaged records is exact", "joined(_told_of_broken(journal), back", 'joined("", back'),
    ),
    *_in("operations/pack.py", "tests/unit/store/test_committed.py::test_no_pack_lacks_what_a_commit_has")(
        ("a rehearsal counts what pack refuses", "    _journal_beside(head.path,", "    (head.path,"),
    ),
    *_in("operations/verify.py", "tests/faults/test_store_attacks.py")(
        ("verify looks at no seal", "        damage.refuse_if_changed(store, journal)\n", ""),
    ),
    *_in("store/damage.py", "tests/unit/store/test_damage.py")(
        ("originals are cut to the length that another journal says", "if not belongs:", "if False:"),
    ),
    # What is flushed.
    *_in("store/commit.py", _COMMIT)(
        (
            "originals and journal are not flushed",
            "        disk.system.fsync(self._fd)\n        if hasattr",
            "        if hasattr",
        ),
        (
            "the name of a new file beside the session is not flushed",
            "        if self._is_new:\n            disk.flush_folder(self._path.parent)\n",
            "",
        ),
    ),
    *_in("store/swap.py", _COMMIT)(
        ("the new file is not flushed", "                disk.system.fsync(draft.fd)\n", ""),
        (
            "the replacement is not flushed",
            "    draft.discard()\n    disk.flush_folder(session.path.parent)\n",
            "    draft.discard()\n",
        ),
        (
            "the link to the old file is not flushed",
            "    session.was_linked()\n    disk.flush_folder(session.path.parent / FOLDER)\n",
            "    session.was_linked()\n",
        ),
    ),
    *_in("store/recover.py", _RECOVER)(
        (
            "what is forgotten comes back",
            "            disk.flush_folder(store.folder)\n        folder.tidy_after(store)\n",
            "            pass\n        folder.tidy_after(store)\n",
        ),
    ),
    # The order of writes.
    # Commit the change: the new file takes the session's place, and the old one keeps a late link.
    *_in("store/commit.py", _COMMIT)(
        (
            "the new file is in place before its backup is certain",
            """        self._journal.sync()

        # Commit the change: the new file takes the session's place, and the old one keeps a late link.
        old = put_in_place(session, self._draft)
""",
            """        old = put_in_place(session, self._draft)
        self._journal.sync()
""",
        ),
        ("the journal is certain before the originals are", "        self._originals.sync()\n", ""),
        ("originals are on disk before the run is known to pay", "if self.held > HELD:", "if True:"),
        (
            "originals are on disk before there is a journal",
            "        if self._before is not None:\n            self._before.open()\n",
            "",
        ),
        (
            "packed originals are forgotten",
            "        self._originals.write()\n        self._draft.check()\n",
            "        self._draft.check()\n",
        ),
        (
            "originals are taken back before the journal that names them",
            "        self._journal.cut_back()\n        self._originals.cut_back()\n",
            "        self._originals.cut_back()\n        self._journal.cut_back()\n",
        ),
        ("nothing is taken back", "        for step in (self._take_back, *close):\n", "        for step in close:\n"),
    ),
    *_in("store/swap.py", _COMMIT)(
        (
            "a draft is on disk before it is known to pay",
            "if self._pending_size >= (HELD if self.fd < 0 else disk.BUFFER):",
            "if True:",
        ),
        ("old metadata is lost", "                disk.copy_metadata(session.fd, draft.fd, newest=newest)\n", ""),
    ),
    *_in("pipeline/run.py", "tests/unit/operations/test_compress.py::test_a_gain_that_is_too_small_writes_nothing")(
        ("a run that does not pay is committed", "if attempt.gain < least:", "if False:"),
    ),
    *_in("store/recover.py", _RECOVER)(
        ("a torn append is not cut back", "elif size is not None and size > length:", "elif False:"),
    ),
    # The live agent.
    *_in("store/swap.py", _COMMIT, "tests/unit/store/test_drain.py")(
        (
            "the old file has no second name when it is replaced",
            "            _name_links(session, states)\n            # Bytes",
            "            # Bytes",
        ),
    ),
    *_in("store/swap.py", f"{_COMMIT}::test_lines_appended_before_the_swap")(
        ("what is appended before the swap is lost", "    if end > taken:\n", "    if False:\n"),
    ),
    *_in("store/commit.py", "tests/unit/store/test_drain.py")(
        ("what comes late is not brought over", "        drain(session, old)\n", ""),
    ),
    *_in("store/recover.py", _RECOVER)(
        (
            "a late link of a killed run is not looked at",
            "    for inode in left_over.late:\n",
            "    for inode in ():\n",
        ),
    ),
    *_in("store/swap.py", _SWAP)(
        (
            "a file that comes out in place of the session is not looked at",
            "if (found := source.lstat().st_ino) != expected:",
            "if (found := expected) != expected:",
        ),
    ),
    *_in("store/commit.py", _SWAP)(
        (
            "a file that was rewritten as it was replaced is not put back",
            "        if kept_open or rewritten:\n",
            "        if kept_open:\n",
        ),
    ),
    *_in("store/lock.py", f"{_SWAP}::test_a_document_that_grew_is_not_appended_to")(
        ("lines are added to a document", "same and (now.st_size == self.size or not self.is_document())", "same"),
    ),
    *_in("store/late_links.py", "tests/attacks/test_planted_files.py")(
        (
            "a late link is believed without its seal",
            "if not hmac.compare_digest(seal, _seal(session.name, fields)):",
            "if False:",
        ),
    ),
    *_in("store/late_links.py", _RECOVER)(
        ("a late link is believed whatever file it is on", " and there.st_ino == inode", ""),
    ),
    *_in("store/commit.py", "tests/attacks/test_planted_files.py::test_a_store_from_a_clone_is_closed_to_others")(
        ("a store from a clone stays open to others", "        disk.make_private(fd)\n", ""),
    ),
    *_in("store/recover.py", "tests/attacks/test_forget_leaves_nothing.py")(
        (
            "forget does not finish the run that was killed before",
            "        _carry_over_all(session)\n        for path in",
            "        for path in",
        ),
    ),
    *_in("store/commit.py", "tests/attacks/test_planted_names.py")(
        ("a store with other names is written to", "refuse_other_names(self._path, fd)\n", "pass\n"),
    ),
    *_in("operations/batch.py", "tests/attacks/test_planted_names.py::test_no_process_imports_from_the_working_folder")(
        ("processes import from the working folder", '    os.environ[name] = "1"\n', ""),
    ),
    *_in("store/lock.py", f"{_COMMIT}::test_any_other_change_before_the_swap")(
        (
            "a session that another program replaced is replaced",
            "        if not _same_file(self.path, now):\n",
            "        if False:\n",
        ),
    ),
    *_in("store/lock.py", "tests/unit/store/test_lock.py")(
        ("the lock may be on a file that is gone", "if lock(fd) and _same_file(path, os.fstat(fd)):", "if lock(fd):"),
        ("a session in use is replaced", "wait_until_free(session.fd, APPEND_SECONDS) is OpenForWriting.YES", "False"),
        ("a session with other hard links is replaced", "if links > 1 and links > 1 + ", "if False and links > 1 + "),
    ),
    *_in("store/machine.py", "tests/unit/store/test_lock.py")(
        ("links are followed", '("O_NOFOLLOW", "O_CLOEXEC",', '("O_CLOEXEC",'),
    ),
    # A file that is no session.
    *_in("store/disk.py", "tests/unit/store/test_disk.py")(
        (
            "a settings file is not flushed",
            "            system.fsync(fd)\n            system.replace(",
            "            system.replace(",
        ),
        ("its name is not flushed", "            raise\n    flush_folder(path.parent)\n", "            raise\n"),
        (
            "a file that must be new is not flushed",
            "            system.fsync(fd)\n            system.link(",
            "            system.link(",
        ),
        (
            "the name of a file that must be new is not flushed",
            "            remove(temporary)\n    flush_folder(path.parent)\n",
            "            remove(temporary)\n",
        ),
        (
            "a file that must be new replaces one",
            "system.link(temporary, path, follow_symlinks=False)",
            "system.replace(temporary, path)",
        ),
    ),
    # Whose policy counts, and what it may say.
    *_in("policy/sources.py", "tests/unit/policy/test_sources.py")(
        ("a file near a session says anything", "if not source.near or key.only_user is None:", "if True:"),
        ("anybody's policy counts", "if not _is_owned(os.lstat(path))", "if False"),
        ("others write the user's policy", "found.st_mode & forbidden", "False"),
        ("a relative configuration counts", "file if file.is_absolute() else None", "file"),
    ),
    *_in("policy/model.py", "tests/unit/policy/test_sources.py")(
        (
            "a clone says where originals go",
            'Folder, OnlyUser("--backup-dir", "puts originals elsewhere")',
            "Folder, None",
        ),
    ),
    *_in("cli/pre_commit.py", "tests/cli/test_staging.py")(
        ("a filter changes what is committed", 'values["filter"] not in (*_OFF, "lfs", "git-crypt", "annex")', "False"),
    ),
    *_in("store/folder.py", "tests/unit/store/test_merges.py")(
        ("git merges two stores", "* -text -ident -merge", "* -text -ident"),
    ),
    *_in("pipeline/triage.py", "tests/unit/pipeline/test_triage.py")(
        ("no run is due after a compaction", "or _is_compacted(path, left)", ""),
    ),
    *_in("pipeline/triage.py", "tests/attacks/test_late_line_of_a_small_session.py")(
        ("a small session with a late line is skipped", "None if said and has_leftovers(path) else said", "said"),
    ),
    *_in("store/folder.py", "tests/unit/store/test_folder.py")(
        ("a clone's .gitattributes counts", "present.endswith(_AS_THEY_ARE) or", "present or"),
        ("a clone's .gitignore shows originals", "    if shown or not is_ours(folder):\n", "    if True:\n"),
    ),
    *_in("store/layout.py", "tests/attacks/test_store_in_two_places.py")(
        ("a second store is begun", "if there is None or holds(store):", "if True:"),
    ),
    *_in("store/layout.py", "tests/attacks/test_whose_store.py")(
        (
            "anybody's run counts as the user's",
            "yield record, is_signed(seen, record), made",
            "yield record, True, made",
        ),
        ("a stranger adds to what the user committed", "is_shared = is_shared and is_known", "pass"),
    ),
    *_in("operations/matching.py", "tests/attacks/test_whose_store.py")(
        (
            "a stranger's text takes the place of the user's",
            "    if lacks(original, raw):",
            "    if False:",
        ),
    ),
    *_in("operations/restore.py", "tests/attacks/test_whose_store.py::test_a_stranger_s_checkpoint_takes_no_text_away")(
        (
            "a stranger's checkpoint takes a text away",
            "if self.journal.is_ours or not before.taken:\n            return",
            "if True:\n            return",
        ),
    ),
    *_in("pipeline/rewrite.py", "tests/attacks/test_whose_store.py::test_what_does_not_read_back_is_kept_again")(
        ("a place is believed that is not read back", "self._kept.line(place, was.hex())", "pass"),
    ),
    *_in("store/journal.py", "tests/attacks/test_whose_store.py")(
        ("a stranger's runs count as the user's", "is_ours=is_signed(seen, raw)", "is_ours=True"),
    ),
    *_in("store/recover.py", "tests/attacks/test_whose_store.py")(
        ("leave for one session counts for another", "and not any(ours)", "and not ours"),
    ),
    *_in("store/machine.py", "tests/unit/store/test_machine.py")(
        (
            "the user signs with no key",
            'digest(key(), whole.digest(), "sha256")',
            'digest(b"", whole.digest(), "sha256")',
        ),
    ),
    *_in("policy/sources.py", "tests/cli/test_goals.py::test_a_configuration_that_does_not_count_is_not_written")(
        ("a configuration that others write is changed", "os.path.lexists(file) and not self._user", "False"),
    ),
    *_in("cli/compact.py", "tests/cli/test_goals.py::test_the_valve_hides_both")(
        ("the safety valve is put off", "{} if found.budget.is_valve else _changes", "_changes"),
    ),
    *_in("policy/model.py", "tests/unit/operations/test_user_commands.py")(
        ("a command reaches the journal", '"beforeCommand", "afterCommand", "summarizer")', '"summarizer")'),
    ),
    *_in("pipeline/budget.py", _DUE)(
        (
            "a summary comes before clearing",
            "action if decide(left, policy)[0] == Action.NONE else Action.COMPACT",
            "Action.COMPACT",
        ),
    ),
    *_in("operations/old_part.py", "tests/unit/operations/test_summarizer.py::test_after_a_failure_the_extract_stands")(
        ("an answer stands unchecked", "if why := why_not(text, self.room):", "if why := '':"),
    ),
    *_in("operations/compact.py", "tests/unit/operations/test_user_commands.py")(
        ("a command is asked of a session that is left", "if not rehearsed.is_compacted:", "if False:"),
    ),
    *_in("operations/compact.py", _DUE)(
        ("a session is compacted that is not due", "or _why_no_summary(self._budget)", ""),
    ),
    *_in("store/journal.py", _DUE)(
        (
            "what was recorded counts behind a checkpoint",
            "newest.restored and not self.has_checkpoint",
            "(newest.restored or self.has_checkpoint)",
        ),
    ),
    *_in("pipeline/run.py", _DUE)(
        ("what a checkpoint stands for waits", "due = force or follows_checkpoint", "due = force"),
    ),
    # A checkpoint: its check, the order in which it is written, and how it comes out.
    *_in("operations/draft.py", _COMPACT)(
        ("no draft of a checkpoint is checked", "draft.check(self.known, cut, self.where)", "draft.read = self.read"),
        ("a checkpoint need not repeat what is kept", "if ours <= sum(", "if 0 > sum("),
        ("what a document loses is not kept", "removed, dropped = draft.keep(), ", "removed, dropped = None, "),
    ),
    *_in("operations/draft.py", f"{_COMPACT}::test_a_form_that_its_own_reader_does_not_see_is_not_written")(
        ("an old line is still read behind a checkpoint", "if old & live:", "if False:"),
    ),
    *_in("operations/draft.py", f"{_COMPACT}::test_a_form_that_its_own_reader_does_not_see_is_not_written")(
        ("a kept line is not read behind a checkpoint", "if not kept <= live:", "if False:"),
    ),
    *_in("operations/draft.py", f"{_COMPACT}::test_half_a_line_at_the_end_is_refused")(
        ("half a line is added to", "if jsonl.parse(self._raw(last)) is None:", "if False:"),
    ),
    *_in("operations/checkpoints.py", _COMPACT)(),
    *_in("operations/checkpoints.py", f"{_COMPACT}::test_the_summary_stays_in_a_document_that_was_written_anew")(
        (
            "a summary in a document that was written anew counts as gone",
            "if _HEAD in raw and len(self.taken) < len(standing):",
            "if False:",
        ),
    ),
    *_in("operations/checkpoints.py", f"{_COMPACT}::test_without_its_store_it_is_refused")(
        ("a summary without its store is not refused", "return is_compacted and has_summary", "return False"),
    ),
    *_in("operations/checkpoints.py", f"{_COMPACT}::test_what_an_agent_adds_behind_it_keeps_its_line")(
        ("what hangs on a checkpoint stays there", "yield self._hung(raw, reader)", "yield raw"),
    ),
    *_in(
        "operations/checkpoints.py",
        f"{_COMPACT}::test_what_repeats_messages_comes_out_though_they_were_rewritten_in_it",
    )(
        (
            "what repeats rewritten messages stays",
            "return frozenset(names | {self._as_written[each] for each in names & self._as_written.keys()})",
            "return frozenset(names)",
        ),
    ),
    *_in("core/documents.py", f"{_COMPACT}::test_a_count_that_the_agent_changed_stays_when_the_summary_goes")(
        ("a number is known by its digits alone", 'if b"{" not in new:', "if False:"),
    ),
    *_in(
        "operations/checkpoints.py", f"{_COMPACT}::test_behind_a_whole_line_without_its_end_one_is_added_and_taken_out"
    )(
        ("an LF of ours stays", "if record.unended and since < len(new)", "if False"),
    ),
    *_in("operations/restore.py", _UNDO)(
        (
            "an edit is undone to what the agent wrote",
            "before = record.sha256 if is_on_top else before",
            "before = original.hex() if is_on_top else before",
        ),
        (
            "a run goes alone from under another that rewrote its lines",
            "if is_unknown or (is_mine and not is_on_top):",
            "if is_unknown:",
        ),
    ),
    *_in("operations/restore.py", f"{_UNDO}::test_a_summary_under_a_later_run_does_not_go_alone")(
        ("a checkpoint goes from under a later run", "if newer and journal.checkpoints_of(runs):", "if False:"),
    ),
    *_in("pipeline/rewrite.py", _UNDO)(
        ("a run takes over records of one that is in place", "and not self._journal.stands(row):", ":"),
        (
            "an original that is kept is kept again",
            "if self._keeps and not isinstance(place, InFrame):",
            "if self._keeps:",
        ),
    ),
    *_in("pipeline/run.py", _UNDO)(
        ("what is rewritten again stays a run's that was taken back", "again=tuple(applied.claimed)", "again=()"),
    ),
    *_in("store/journal.py", _UNDO)(
        ("a run that died is in place", "self._in_place.pop(number - 1, None)", "pass"),
    ),
    *_in("operations/checkpoints.py", f"{_UNDO}::test_the_newer_of_two_summaries_goes_alone")(
        (
            "an older summary loses a line with a newer one",
            "if ours and not any(others[name] for name in ours):",
            "if ours:",
        ),
    ),
    *_in("pipeline/reading.py", "tests/attacks/test_equal_lines.py")(
        ("the agent's own line counts as rewritten", "if left < 0 and number in self._unsure:", "if False:"),
    ),
    *_in("pipeline/reading.py", "tests/unit/operations/test_restore.py")(
        ("an older state behind an undo is not known", "{journal.run_of(row) for row in found.rows.values()}", "()"),
    ),
    *_in("core/documents.py", "tests/unit/core/test_checkpoint_documents.py")(
        (
            "short bytes are looked for anywhere",
            "if len(made) >= _PLAINLY and raw.count(made) == 1:",
            "if raw.count(made) == 1:",
        ),
        (
            "bytes that stand twice are taken out",
            "if len(made) >= _PLAINLY and raw.count(made) == 1:",
            "if len(made) >= _PLAINLY:",
        ),
        (
            "a value that its agent keeps up to date holds a checkpoint",
            "if number in undo.around:",
            "if False:",
        ),
        ("a document's end moves what was made", "places = [start, len(raw) - undo.size + start]", "places = [start]"),
    ),
    *_in("checkpoints/cut.py", "tests/unit/checkpoints/test_cut.py")(
        ("a cut parts a call from its result", "close(called[name], position)", "pass"),
    ),
    *_in("operations/compact.py", f"{_COMPACT}::test_a_second_run_by_any_rule_writes_nothing")(
        (
            "a share is cut again and again",
            "is_same_share = chosen.keep is CutRule.SHARE and latest.record.rule == CutRule.SHARE",
            "is_same_share = False",
        ),
    ),
    *_in("operations/log.py", "tests/cli/test_budget.py::test_a_log_is_the_users_own")(
        ("another user's log is written", "found.st_uid != os.geteuid()", "False"),
    ),
    # What no repository's configuration runs, and what git is asked before originals go.
    *_in("store/git.py", "tests/attacks/test_git_of_a_stranger.py")(),
    *_in("store/git.py", "tests/attacks/test_git_of_a_stranger.py::test_the_hook_of_pre_commit")(
        ("git runs a repository's fsmonitor", '"core.fsmonitor=false"', '"core.x=false"'),
    ),
    *_in("store/git.py", "tests/attacks/test_git_of_a_stranger.py::test_the_hook_of_pre_commit")(
        ("git runs a repository's hooks", '"core.hooksPath=/dev/null"', '"core.x=false"'),
    ),
    *_in("store/git.py", "tests/attacks/test_git_of_a_stranger.py::test_the_hook_of_pre_commit")(
        ("git takes a folder for a bare repository", "=explicit", "=all"),
    ),
    *_in("store/git.py", "tests/attacks/test_git_of_a_stranger.py::test_the_hook_of_pre_commit")(
        (
            "git fetches what a partial clone lacks",
            '    "GIT_NO_LAZY_FETCH": "1",\n    "GIT_ALLOW_PROTOCOL": "none",\n',
            "",
        ),
    ),
    *_in("store/git.py", "tests/unit/store/test_git.py")(
        ("git obeys the environment of a hook", "() if at else _OF_A_COMMIT", "_OF_A_COMMIT"),
        ("git is not told the commit at hand", "() if at else _OF_A_COMMIT", "()"),
    ),
    *_in("store/git.py", "tests/unit/store/test_git.py::test_what_git_can_bring_back_is_known")(
        ("git is not asked for the reflog", '"--reflog", ', ""),
    ),
    *_in("store/git.py", "tests/unit/store/test_git.py::test_what_git_can_bring_back_is_known")(
        ("git is not asked for all branches", '"--all", "--reflog", ', '"HEAD", '),
    ),
    *_in("store/git.py", "tests/unit/store/test_git.py::test_what_git_can_bring_back_is_known")(
        ("git follows one side of a merge", '"--reflog", "--full-history", ', '"--reflog", '),
    ),
    *_in("store/git.py", "tests/unit/store/test_git.py::test_a_pipe_in_a_repository_holds_nobody_up")(
        ("git is not asked for any index", "at), *_indexes(top, at)):", "at),):"),
    ),
    *_in("store/git.py", "tests/unit/store/test_git.py::test_a_pipe_in_a_repository_holds_nobody_up")(
        ("git is not asked for the indexes of other work trees", "(common, *folders)", "()"),
    ),
    *_in("store/git.py", "tests/unit/store/test_git.py::test_a_pipe_in_a_repository_holds_nobody_up")(
        ("where git does not answer nothing is known", "file: error for file", "file: error for _ in () for file"),
    ),
    *_in("store/git.py", "tests/unit/store/test_committed.py")(),
    *_in("store/git.py", "tests/unit/store/test_committed.py::test_in_a_hook_the_commit_before_counts")(
        ("in a hook HEAD counts", '"HEAD~1" if "GIT_INDEX_FILE" in os.environ else "HEAD"', '"HEAD"'),
    ),
    *_in("store/git.py", "tests/unit/store/test_committed.py::test_what_no_commit_has_is_stored")(
        ("an object of any size is read", "int(size or 0) > LARGEST_BLOB", "False"),
    ),
    *_in("store/git.py", "tests/unit/store/test_committed.py::test_verify_names_what_git_will_delete")(
        ("what HEAD does not come from is in reach", "    return lost\n", "    return set()\n"),
    ),
    *_in("store/originals.py", "tests/unit/store/test_committed.py")(),
    *_in("store/originals.py", "tests/unit/store/test_committed.py::test_what_no_commit_has_is_stored")(
        ("any file of its name is a version of a session", "offset == 0 and digest != self._first", "False"),
    ),
    *_in("store/originals.py", "tests/unit/store/test_committed.py::test_what_a_journal_says_of_a_commit_is_compared")(
        ("what a commit has is not compared", "if sha256(line).hexdigest() == sha256_hex:", "if True:"),
    ),
    *_in("pipeline/rewrite.py", "tests/unit/store/test_committed.py")(
        ("where a commit is gone a run fails", "if isinstance(known.place, InFrame):\n", "if True:\n"),
    ),
    *_in(
        "pipeline/rewrite.py",
        "tests/unit/store/test_committed.py::test_a_line_waits_for_a_commit_unless_a_run_is_forced",
    )(
        ("no line waits for a commit", "if self._committed.waits:", "if False:"),
    ),
    *_in("store/recover.py", "tests/unit/store/test_recover.py")(
        (
            "damaged originals are the trace of a killed run",
            "first_damaged(store.originals, lengths.originals)) is not None:",
            "None) is not None:",
        ),
    ),
    *_in("operations/forget.py", "tests/attacks/test_forget_on_another_branch.py")(
        ("forget --gone does not ask git", "git.known(places).items()", "()"),
    ),
    *_in("operations/forget.py", "tests/cli/test_forget_choices.py")(
        (
            "a store is unneeded because the user says so",
            "if only.unneeded and (why := _needed(session, there, len(lost) + left, refer)):",
            "if False:",
        ),
        ("forget takes what changed meanwhile", "if session.stat.st_mtime > only.since:", "if False:"),
        (
            "a session that was moved is gone",
            "found |= _moved({place: path for place, path in places.items() if path not in found}, policy_of, named)",
            "pass",
        ),
        ("forget --gone does not look in the paths that it got", "discover(named)", "()"),
        ("a session in a pack is gone", "if packed.place in places and packed.is_waiting:", "if False:"),
        ("forget takes a session for gone", "if only != ANY and not only.gone:", "if False:"),
    ),
    # What tells an older state from damage, and where originals may be read.
    *_in(
        "operations/verify.py",
        "tests/unit/operations/test_restore.py::test_what_was_changed_stays_and_everything_else_comes_back",
    )(
        (
            "a changed line is passed over",
            "if (record := missing.of(raw)) is not None:",
            "if (record := missing.of(raw)) is None and record is not None:",
        ),
    ),
    *_in(
        "operations/restore.py",
        "tests/unit/operations/test_restore.py::test_what_was_changed_stays_and_everything_else_comes_back",
    )(
        ("a restore that left changed lines says that all is back", "self.command = RunKind.RESTORE_MARKERS", "pass"),
    ),
    *_in("pipeline/relatives.py", "tests/attacks/test_originals_of_the_family.py")(
        (
            "an agent has one folder",
            "for each in of_agents",
            "for each in ([root] for roots in of_agents for root in roots)",
        ),
        ("a header chooses where originals are read", "path if path.parent in near else", "path if near else"),
    ),
    *_in(
        "pipeline/relatives.py",
        "tests/attacks/test_originals_of_the_family.py::test_the_store_of_a_relative_whose_key_was_lost",
    )(
        (
            "who lost the key has lost the stores",
            "*(ours or layout.all_stores(path, backups))",
            "*ours",
        ),
    ),
    *_in(
        "pipeline/relatives.py",
        "tests/attacks/test_originals_of_the_family.py::test_forget_keeps_what_a_session_needs_that_names_none",
    )(
        ("only relatives need originals", "needy.union(kin_of(session, ids))", "set(kin_of(session, ids))"),
        (
            "no session in another folder needs originals",
            "for index in left_in for each",
            "for index in left_in[:1] for each",
        ),
    ),
    *_in(
        "pipeline/relatives.py",
        "tests/attacks/test_originals_of_the_family.py::test_forget_names_what_codex_itself_put_away",
    )(
        (
            "what Codex packed needs nothing",
            "if path.name.endswith(rollouts.ENDING):\n            return rollouts",
            "if False:\n            return rollouts",
        ),
    ),
    # What a preview keeps.
    *_in("compressors/names.py", "tests/unit/compressors/test_names.py")(
        ("a name that a piece shows is shown again", "shown.update(piece.translate(_PARTS).split())", "pass"),
    ),
    *_in("compressors/names.py", "tests/unit/compressors/test_names.py::test_names_alone_stand_last")(
        (
            "names have twice the budget",
            "budget = max(self._policy.preview_share * self._size",
            "budget = max(2 * self._policy.preview_share * self._size",
        ),
    ),
    *_in("compressors/names.py", "tests/unit/compressors/test_names.py::test_shown")(
        ("names alone have the budget once more", "for_names = budget * (1 - _WITH_NEIGHBORS)", "for_names = budget"),
    ),
    *_in("compressors/names.py", "tests/unit/compressors/test_names.py::test_no_index_is_longer_than_the_most")(
        ("one result may show as much as it likes", "min(self._most - ends, len(data) // 2)", "(len(data) // 2)"),
    ),
    *_in(
        "compressors/names.py", "tests/unit/compressors/test_names.py::test_no_index_is_longer_than_half_of_its_result"
    )(
        (
            "a short result may show more than half of itself",
            "min(self._most - ends, len(data) // 2)",
            "(self._most - ends)",
        ),
    ),
    *_in("compressors/names.py", "tests/unit/compressors/test_names.py::test_shown")(
        ("a name is shown in every result", "if name in shown:", "if name in shown and not alone:"),
    ),
    *_in("compressors/names.py", "tests/unit/compressors/test_names.py::test_what_stays_anyway_is_not_shown")(
        ("what stays is not known", 'self._known.update(words, b" ".join(dotted).translate(_PARTS).split())', "pass"),
    ),
    *_in(
        "compressors/names.py",
        "tests/unit/compressors/test_names.py::test_what_the_rest_of_a_preview_shows_is_not_repeated",
    )(
        ("an index repeats what its preview shows", " if piece not in shown", ""),
    ),
    *_in("pipeline/rewrite.py", "tests/unit/pipeline/test_previews.py")(
        ("lines that stay are not read for their names", 'names.keep(b"\\n".join(kept))\n    results', "results"),
        ("results come the oldest first", "sorted(plan, reverse=True)", "sorted(plan)"),
        (
            "a line that loses its screen copy counts as unknown",
            "all(takes_nothing(change) for change in plan.get(number, ()))",
            "number not in plan",
        ),
        ("what an agent writes above a result has names", "preamble.match(text) if preamble else None", "None"),
    ),
    *_in("pipeline/rewrite.py", "tests/unit/pipeline/test_previews.py::test_dead_history_is_left_out")(
        ("dead history counts as known", " and number not in dead", ""),
    ),
    *_in(
        "pipeline/rewrite.py",
        "tests/unit/operations/test_compress.py::test_copies_around_a_line_that_would_become_the_same_are_settled_in_one_run",
    )(
        ("equal texts get other names in each run", "if not replaced.isdisjoint(digests):", "if False:"),
    ),
    *_in("compressors/base.py", "tests/unit/compressors/test_instructions.py")(
        (
            "the oldest copy of instructions stays",
            "newest[made.file, made.part] = number",
            "newest.setdefault((made.file, made.part), number)",
        ),
    ),
    *_in("compressors/base.py", "tests/unit/compressors/test_instructions.py::test_a_read_that_failed_is_no_copy")(
        ("a read that failed is the newest copy", " and not self.lines.facts[number].failed", ""),
    ),
    *_in(
        "compressors/base.py",
        "tests/unit/compressors/test_instructions.py::test_a_read_that_says_that_nothing_changed_is_no_copy",
    )(
        ("a read of nothing is the newest copy", "size > SMALLEST_LIMIT and ", ""),
    ),
    *_in("compressors/base.py", "tests/unit/compressors/test_instructions.py::test_a_result_in_the_line_of_its_call")(
        ("a result in the line of its call has none", "return self._called[1].get(name)", "return None"),
    ),
    *_in("compressors/results.py", "tests/unit/pipeline/test_previews.py")(
        ("names go before failures", "with_failures != without:", "not with_failures:"),
    ),
    *_in("compressors/base.py", "tests/unit/compressors/test_subagents.py")(
        ("all reports stay", "Purpose.AGENT]][-_MOST_REPORTS:]", "Purpose.AGENT]]"),
    ),
    *_in("compressors/preview.py", "tests/unit/compressors/test_least_gain.py")(
        ("a block goes for one byte", "LEAST_GAIN = 512", "LEAST_GAIN = 1"),
    ),
    *_in("compressors/results.py", "tests/unit/compressors/test_least_gain.py")(
        (
            "what stays counts as removable",
            "block.bulk > policy.result_limit and block.size - MARKER_BYTES - ends_of(block.size, policy) >= LEAST_GAIN",
            "block.bulk > policy.result_limit",
        ),
    ),
    *_in("core/marker.py", "tests/unit/core/test_marker.py::test_an_index_is_no_line")(
        ("an index counts as a line", " + has_index(text)", ""),
    ),
    *_in("compressors/results.py", "tests/unit/operations/test_previews.py")(
        (
            "a preview over the limit is offered again",
            "if view.holds_ours(block) else block.bulk <= view.policy.result_limit:",
            "if False else block.bulk <= view.policy.result_limit:",
        ),
    ),
    # What a stranger's text says.
    *_in("core/marker.py", "tests/unit/core/test_marker.py::test_what_is_no_count_is_not_read")(
        ("a number in a marker is of any form", '_COUNT = r"[0-9]{1,3}(?:,[0-9]{3}){0,6}"', '_COUNT = r"[0-9,]+"'),
    ),
    *_in("pipeline/relatives.py", "tests/attacks/test_marker_in_tool_output.py::test_restoring_depends_on_no_marker")(
        (
            "a marker that cannot be read stops a restore",
            "RecursionError):\n        return []",
            "RecursionError):\n        raise",
        ),
    ),
    # What no record can hold.
    *_in("store/records.py", "tests/unit/store/test_records.py::test_a_run_that_could_not_be_read_is_refused")(
        ("a run is written that cannot be read", "if reads_back(run.encode()):", "if True:"),
    ),
    *_in("pipeline/rewrite.py", "tests/attacks/test_times_out_of_range.py::test_a_name_longer_than_any_record")(
        (
            "a block is written that cannot be read",
            "if any(len(record) > LONGEST_RECORD for record in records):",
            "if False:",
        ),
    ),
    *_in("store/disk.py", "tests/unit/store/test_disk.py::test_a_time_before_1970")(
        ("a time before 1970 is lost", "newest or old.st_mtime_ns", "newest"),
    ),
    *_in("core/jsonl.py", _DEEP)(
        ("values may be nested as deep as they like", "DEEPEST: Final = 200", "DEEPEST: Final = 2000"),
    ),
    *_in("formats/values.py", f"{_DEEP}::test_every_depth")(
        ("arguments in a text may be nested so", "is_deep(written.encode(", "not (written.encode("),
    ),
    *_in("hooks/guard.py", f"{_DEEP}::test_a_deep_call_does_not_pass_the_guard")(
        ("a deep call passes the guard", "if is_deep(raw):", "if False:"),
    ),
    # Object stores: the conditions and the order of the puts.
    *_in("store/objects.py", "tests/cli/test_cloud.py::test_an_object_that_was_overwritten_is_left_alone")(
        ("an object is put whatever it is by now", "mode=self._mode", 'mode="overwrite"'),
    ),
    *_in("operations/cloud.py", "tests/cli/test_cloud.py")(
        (
            "a session is put before its store",
            "for each in (originals, journal, session):",
            "for each in (session, originals, journal):",
        ),
        ("a first run puts no journal first", 'journal.put(b"")', "pass"),
    ),
    *_in("operations/cloud.py", "tests/cli/test_cloud.py::test_a_put_that_fails_leaves_the_old_or_the_new")(
        (
            "originals that another run has put are cut off",
            "        _refuse_if_leased(originals, store)\n",
            "        pass\n",
        ),
    ),
    *_in("store/places.py", "tests/cli/test_cloud_packs.py::test_a_pack_that_does_not_read_back_takes_no_session")(
        (
            "a pack in a bucket counts unread",
            "is_whole = objects.holds(archive, draft, _NOT_TAKEN)",
            "is_whole = True",
        ),
    ),
    *_in("operations/pack.py", "tests/cli/test_cloud_packs.py")(
        (
            "what changed as it was packed is brought back older",
            "            if outcome.error is not None:\n                left.",
            "            if False:\n                left.",
        ),
    ),
    *_in("operations/pack.py", "tests/cli/test_cloud_packs.py::test_a_put_that_fails_loses_nothing")(
        (
            "a store is emptied before its session",
            '            copy.session.put(b"")\n            _empty(copy.store)\n',
            '            _empty(copy.store)\n            copy.session.put(b"")\n',
        ),
    ),
    # Packs.
    *_in("store/packing.py", f"{_PACKING}::test_a_disk_that_keeps_other_bytes_is_noticed")(
        (
            "a pack is not read back",
            "                    reader.check(entry)\n                again =",
            "                    pass\n                again =",
        ),
    ),
    *_in("store/moves.py", _PACKING)(
        (
            "a packed session is not compared before it goes",
            "return there == files.keys() and all(is_same(path, member) for path, member in files.items())",
            "return there == files.keys()",
        ),
        (
            "a session that is put aside is not looked at again",
            "if in_use or (now.st_ino,",
            "if False and (now.st_ino,",
        ),
        (
            "a session that is put aside is looked at before it is asked who has it open",
            (
                "            in_use = wait_until_free(session.fd, HOLD_SECONDS) is OpenForWriting.YES\n"
                "            was, now = session.stat, aside.lstat()\n"
            ),
            (
                "            was, now = session.stat, aside.lstat()\n"
                "            in_use = wait_until_free(session.fd, HOLD_SECONDS) is OpenForWriting.YES\n"
            ),
        ),
    ),
    *_in("store/moves.py", f"{_PACKING}::test_what_is_no_session_does_not_come_back")(
        ("any file of a pack comes back", "check(drafts[session])", "pass"),
    ),
    *_in("store/pack.py", "tests/unit/store/test_pack.py::test_an_index")(
        ("a pack leads out of its folder", 'step in ("", ".", "..")', 'step == ""'),
    ),
    *_in("store/moves.py", _PACKING)(
        ("a session comes back over a link", "and not is_below(at.root, path):", "and False:"),
    ),
    *_in("operations/pack.py", "tests/unit/operations/test_pack.py")(
        (
            "another session in its place takes the packed one's",
            "State.LEFT if is_begun else None",
            "State.LEFT",
        ),
    ),
    *_in("operations/old_part.py", "tests/unit/operations/test_old_part.py")(),
    *_in("operations/old_part.py", "tests/unit/operations/test_old_part.py::test_what_copies_our_head_is_quoted")(
        (
            "a copy of our head is taken for ours",
            "merge.identity(summary) in known if known else merge.looks_ours(summary)",
            "bool(merge.identity(summary))",
        ),
    ),
    *_in(
        "operations/old_part.py",
        "tests/unit/operations/test_old_part.py::test_what_codex_repeats_behind_a_summary_of_ours_counts_once",
    )(
        ("what a compaction repeats counts again behind ours", "(is_repeated or before.ours)", "is_repeated"),
    ),
    *_in("operations/summarizer.py", "tests/unit/operations/test_summarizer.py::test_the_key")(
        ("headers of the environment are sent", "for name in set(request.headers) - sent:", "for name in ():"),
    ),
    *_in("core/process.py", "tests/cli/test_streams.py::test_a_disk_that_is_full_is_said")(
        (
            "what cannot be written is no failure",
            "if (failure := _unwritten()) and code not in (EXIT_CODE, 5):",
            "if False:",
        ),
    ),
    *_in("operations/compact.py", "tests/properties/test_compact_again.py")(
        (
            "what was compacted just now is cut again",
            "latest.is_newest(chosen):\n            is_same_share",
            "False:\n            is_same_share",
        ),
    ),
    *_in(
        "store/journal.py", "tests/properties/test_compact_again.py::test_other_runs_before_and_behind_it_count_nothing"
    )(
        (
            "what was said since a checkpoint is not counted behind compress",
            "if len(self.runs) > 1 and not self.runs[-1].writes_checkpoint:",
            "if len(self.runs) > 1:",
        ),
    ),
    *_in("operations/draft.py", f"{_COMPACT}::test_a_compressed_session_gets_the_summary_of_its_originals")(
        (
            "previews say how long a summary may be",
            "self.read.lines[number].reads + self._shortened(number)",
            "self.read.lines[number].reads",
        ),
    ),
    *_in("operations/forget.py", _SECRETS)(
        ("forget makes a stranger's pack one's own", "each.pack.is_certain and (not", "True and (not"),
        ("forget works on packs as they were", "for pack in found:", "for pack in [each.pack for each in copies]:"),
    ),
    *_in("operations/forget.py", f"{_SECRETS}::test_forget_leaves_nothing_in_a_pack")(
        (
            "a pack keeps what is forgotten",
            "    for root in {each.pack.root for each in copies} if not dry_run else ():",
            "    for root in ():",
        ),
    ),
    *_in("core/process.py", _SECRETS)(
        ("a signal leaves a copy", "range(3 if maker", "range(0 if maker"),
    ),
    *_in("store/moves.py", _SECRETS)(
        (
            "what cannot be deleted holds up other sessions",
            "            with suppress(OSError):\n",
            "            with suppress():\n",
        ),
    ),
    *_in("store/pack.py", f"{_STRANGERS}::test_a_bomb")(
        ("a bomb is read", "if member.start + member.size > most:", "if False:"),
    ),
    *_in("store/moves.py", _STRANGERS)(
        ("a pack brings a program", "member.mode & 0o644", "member.mode"),
    ),
    *_in("operations/packed.py", "tests/unit/operations/test_pack.py")(
        ("a packed session hides another", ".setdefault(content, each)", ".setdefault((), each)"),
    ),
    *_in("cli/frame.py", f"{_STRANGERS}::test_what_is_read_of_a_stranger_s_pack_is_told")(
        ("a stranger's packed text has no word", "or each.pack.is_certain:", "or True:"),
    ),
    *_in("operations/batch.py", "tests/cli/test_folders.py::test_links_in_a_folder_are_passed_over")(
        ("a link beside a session hides it", " and str(error.where) == str(path)", ""),
    ),
    *_in(
        "cli/restore.py",
        "tests/attacks/test_whose_store.py::test_a_stranger_s_word_that_nothing_is_rewritten_is_told_as_that",
    )(
        (
            "a stranger's word that all is there is believed",
            "super().hints(done)",
            "super().hints(done._replace(results=restored))",
        ),
    ),
    *_in("store/places.py", _SECRETS)(
        (
            "packs behind a link are none",
            "            refuse_linked_folder(each)\n        try:",
            "            if each.is_symlink():\n                return []\n        try:",
        ),
    ),
    *_in("operations/packed.py", _STRANGERS)(
        ("a pack brings code", 'if not path.endswith((".jsonl"', 'if False and ((".jsonl"'),
        ("a pack brings settings", "    if what:\n        homes", "    if False:\n        homes"),
        ("a pack of a stranger brings settings", "is_certain or not path.endswith", "True or not path.endswith"),
    ),
    *_in("store/places.py", _STRANGERS)(
        ("a pack of the first version is surely one's own", "archive.parent.parent.name == folder_name() and ", ""),
    ),
    *_in("store/places.py", f"{_STRANGERS}::test_a_pack_of_another_user")(
        (
            "a pack of another user counts",
            "    if os.path.lexists(file) and not is_own(file):\n        what",
            "    if False:\n        what",
        ),
    ),
    *_in("store/places.py", f"{_STRANGERS}::test_what_others_may_have_packed_is_told")(
        ("a pack that git knows is surely one's own", " and self._known_to_git.isdisjoint((archive, index))", ""),
    ),
    *_in("formats/codex_places.py", "tests/faults/test_pointers.py::test_a_kill_before_any_call")(
        (
            "what points into a larger session is changed in the order of a smaller one",
            "if places.size > was.st_size:",
            "if places.size < was.st_size:",
        ),
    ),
    *_in("formats/codex_places.py", "tests/unit/formats/test_codex_places.py")(
        (
            "no place follows to the new session",
            "            for each in indexes:\n                each.change(places, was_read=os.path.samestat(was, new))\n",
            "",
        ),
        (
            "the places in forks stay",
            "                    _point(children, places)\n                    _commit(indexes)\n",
            "                    _commit(indexes)\n",
        ),
        ("a fork without room is written over", "        self._make_room(fd)\n", ""),
        ("a session is rewritten that its agent has loaded", "if not lock(own):", "if False:"),
        ("a stranger says where the index is", 'if b"sqlite_home" in config:', "if False:"),
        (
            "a place that we do not know stays where it was",
            'or {(table, column) for table, column in found if "offset" in column} - known',
            "",
        ),
    ),
    *_in(
        "formats/codex_places.py", "tests/unit/formats/test_codex_places.py::test_a_home_of_another_user_is_left_alone"
    )(
        (
            "what an earlier version left wrong stays wrong",
            "            if each and each.wrong(when):",
            "            if False:",
        ),
    ),
)
