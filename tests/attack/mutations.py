"""Each protection, and how to take it out: the tests named beside it must then fail.

There is no off switch in AGS itself. Protections are data and functions; only tests patch them.
The check of the walls before a start would refuse most of these, so it is taken out along with
each: what is asked here is whether the attack succeeds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ags import host, places, plan, proc
from ags.backends import bubblewrap, bwrap, walls, ways
from ags.backends.sandbox import BubblewrapSandbox
from ags.kernel import cgroup, rlimits, seccomp, watch
from ags.model import Bind, Limits, Mask, MountStep, Plan, ReadOnly, Tmpfs
from ags.workspace import protect, unshare
from tests.attack.egress_mutations import EGRESS
from tests.attack.enter_mutations import ENTERING
from tests.attack.patching import Patch
from tests.attack.run_mutations import RUNS
from tests.attack.whole_mutations import WHOLE

Apply = Callable[[Patch], None]

FILES, KERNEL, LEAKS = "test_files.py", "test_kernel.py", "test_leaks.py"
RESOURCES, WORKSPACE, MOUNTS = "test_resources.py", "test_workspace.py", "test_mounts.py"
WAYS, AGENTS = "test_ways.py", "test_agents.py"


@dataclass(frozen=True)
class Mutation:
    """`take_out` the protection; each of `noticed_by` (file::test, maybe with [id]) must fail."""

    take_out: Apply
    noticed_by: tuple[str, ...]
    keep_check: bool = False

    def apply(self, patch: Patch) -> None:
        if not self.keep_check:
            patch.setattr(walls, "check", lambda pid, expected: None)
        self.take_out(patch)


def without_namespace(name: str) -> Apply:
    def take_out(patch: Patch) -> None:
        kept = tuple(each for each in bwrap.NAMESPACES if each != name)
        patch.setattr(bwrap, "NAMESPACES", kept)
        if name == "user":  # bwrap refuses these two without it
            patch.setattr(bwrap, "HARDENING", _less("--disable-userns", "--assert-userns-disabled"))

    return take_out


def _less(*flags: str) -> tuple[str, ...]:
    return tuple(flag for flag in bwrap.HARDENING if flag not in flags)


def without_hardening(*flags: str) -> Apply:
    return lambda patch: patch.setattr(bwrap, "HARDENING", _less(*flags))


def without_rules(group: str) -> Apply:
    rules = {name: rules for name, rules in seccomp.RULES.items() if name != group}
    return lambda patch: patch.setattr(seccomp, "RULES", rules)


def without_steps(unwanted: Callable[[MountStep], bool]) -> Apply:
    return with_steps(lambda steps: (step for step in steps if not unwanted(step)))


def with_steps(change: Callable[[Iterable[MountStep]], Iterable[MountStep]]) -> Apply:
    def take_out(patch: Patch) -> None:
        build = plan.build

        def changed(spec: plan.Spec, facts: host.Host) -> Plan:
            made = build(spec, facts)
            return replace(made, mounts=tuple(change(made.mounts)))

        patch.setattr(plan, "build", changed)

    return take_out


def all_writable(steps: Iterable[MountStep]) -> Iterable[MountStep]:
    return (replace(step, writable=True) if isinstance(step, Bind) else step for step in steps)


def huge(steps: Iterable[MountStep]) -> Iterable[MountStep]:
    return (replace(step, size=1 << 30) if isinstance(step, Tmpfs) else step for step in steps)


def protections_first(patch: Patch) -> None:
    build = plan.build
    patch.setattr(
        plan,
        "build",
        lambda spec, facts: build(
            replace(spec, toolchains=(*spec.toolchains, *spec.protections), protections=()), facts
        ),
    )


def binds_in_any_order(patch: Patch) -> None:
    patch.setattr(plan, "sorted", lambda binds, key: binds, raising=False)


def with_spawn(change: Callable[[tuple[str, ...], dict[str, object]], tuple[str, ...]]) -> Apply:
    def take_out(patch: Patch) -> None:
        spawn = proc.spawn

        def changed(argv: tuple[str, ...], **options: object) -> proc.Child:
            argv = change(argv, options)
            return spawn(argv, **options)  # type: ignore[arg-type]

        patch.setattr(proc, "spawn", changed)

    return take_out


def with_our_environment(argv: tuple[str, ...], options: dict[str, object]) -> tuple[str, ...]:
    options["env"] = dict(os.environ)
    return argv


def with_plain_arguments(argv: tuple[str, ...], options: dict[str, object]) -> tuple[str, ...]:
    descriptors = options["descriptors"]
    assert isinstance(descriptors, dict)
    told = os.pread(descriptors[bubblewrap.ARGUMENTS], 1 << 20, 0).split(b"\0")[:-1]
    return (argv[0], *map(os.fsdecode, told), *argv[3:])


def with_open_descriptors(patch: Patch) -> None:
    patch.setattr(proc, "_seal_inherited", lambda: None)


def without_limit(name: str) -> Apply:
    """As if it had never been asked for, wherever limits are looked at."""

    def take_out(patch: Patch) -> None:
        def lifted(limits: Limits) -> Limits:
            return replace(limits, **{name: None})

        create, apply, watcher = cgroup.create, rlimits.apply, watch.watch
        patch.setattr(cgroup, "create", lambda run, limits: create(run, lifted(limits)))
        patch.setattr(
            rlimits,
            "apply",
            lambda pids, limits, contained: apply(pids, lifted(limits), contained=contained),
        )
        patch.setattr(
            watch,
            "watch",
            lambda init, limits, writable, contained: watcher(
                init, lifted(limits), writable, contained=contained
            ),
        )

    return take_out


def open_gate(patch: Patch) -> None:
    patch.setattr(bubblewrap, "GATE", 'echo >&4 && exec "$@" 2>&8 3<&- 4>&- 8>&-')


def nothing_refused(patch: Patch) -> None:
    patch.setattr(places, "_too_much", lambda path, guarded, writable: None)


def everything_allowed(machine: str, *, ptrace: bool = False) -> bytes:
    return bytes.fromhex("06000000" + "0000ff7f")


CALLS = "../kernel/test_seccomp_kernel.py"
ALL_KERNEL = f"{KERNEL}::test_a_door_of_the_kernel_is_shut"

MUTATIONS: dict[str, Mutation] = {
    "user namespace": Mutation(
        without_namespace("user"), (f"{KERNEL}::test_inside_is_a_user_namespace_of_one_user[root]",)
    ),
    "ipc namespace": Mutation(
        without_namespace("ipc"), (f"{KERNEL}::test_the_ipc_of_the_host_is_not_there",)
    ),
    "pid namespace": Mutation(
        without_namespace("pid"),
        (f"{KERNEL}::test_host_processes_are_neither_seen_nor_signalled",),
    ),
    "net namespace": Mutation(
        without_namespace("net"),
        (
            f"{LEAKS}::test_a_listener_on_the_hosts_loopback_is_out_of_reach",
            f"{LEAKS}::test_an_abstract_socket_of_the_host_is_out_of_reach",
        ),
    ),
    "uts namespace": Mutation(
        # bwrap sets a host name only in a namespace of its own
        lambda patch: (
            without_namespace("uts")(patch),
            with_spawn(_without_hostname)(patch),
        )[0],
        (f"{KERNEL}::test_the_hosts_name_is_not_told",),
    ),
    "cgroup namespace": Mutation(
        without_namespace("cgroup"),
        (f"{KERNEL}::test_our_place_among_the_hosts_cgroups_is_not_told",),
    ),
    "nested user namespaces off": Mutation(
        without_hardening("--disable-userns", "--assert-userns-disabled"),
        (f"{KERNEL}::test_even_without_the_filter_no_user_namespace_can_be_made",),
    ),
    "ends with its parent": Mutation(
        without_hardening("--die-with-parent"),
        (f"{KERNEL}::test_everything_inside_ends_with_the_one_who_started_it",),
    ),
    "capability drop": Mutation(
        without_hardening("--cap-drop", "ALL"),
        (f"{KERNEL}::test_no_capability_is_left_and_none_can_be_gained[root]",),
    ),
    "the whole filter": Mutation(
        lambda patch: patch.setattr(seccomp, "program", everything_allowed),
        (f"{KERNEL}::test_one_process_cannot_debug_another_unless_asked_for",),
    ),
    **{
        f"filter: {group}": Mutation(without_rules(group), (f"{ALL_KERNEL}[root-{group}]",))
        for group in (
            "bpf",
            "perf",
            "userfaultfd",
            "io_uring",
            "handles",
            "quota",
            "fanotify",
            "pages",
            "personality",
            "unknown",
            "sockets",
            "mounts",
            "hardware",
            "obsolete",
        )
    },
    # These need a capability as well, and inside there is none: asked of the filter alone, as root.
    **{
        f"filter: {group}": Mutation(
            without_rules(group), (f"{CALLS}::test_behind_the_filter_the_call_fails[{call}]",)
        )
        for group, call in {
            "kexec": "kexec_load",
            "modules": "init_module",
            "system": "acct",
            "clock": "settimeofday",
            "hostname": "sethostname",
        }.items()
    },
    "filter: foreign": Mutation(
        without_rules("foreign"),
        (f"{CALLS}::test_a_call_through_the_table_of_i386_ends_the_process",),
    ),
    "filter: namespaces": Mutation(
        lambda patch: (
            without_rules("namespaces")(patch),
            without_hardening("--disable-userns", "--assert-userns-disabled")(patch),
        )[0],
        (f"{KERNEL}::test_no_namespace_can_be_made_inside",),
    ),
    "filter: set-id": Mutation(
        without_rules("set-id"),
        (f"{FILES}::test_no_set_user_id_program_can_be_left_for_the_host",),
    ),
    "filter: keyring": Mutation(
        without_rules("keyring"),
        (f"{KERNEL}::test_a_key_does_not_reach_the_persons_session",),
    ),
    "filter: ptrace": Mutation(
        without_rules("ptrace"),
        (f"{KERNEL}::test_one_process_cannot_debug_another_unless_asked_for",),
    ),
    "filter: terminal": Mutation(
        without_rules("terminal"),
        (f"{KERNEL}::test_nothing_can_be_typed_into_the_terminal_from_inside",),
    ),
    "environment scrubbing": Mutation(
        with_spawn(with_our_environment),
        (f"{LEAKS}::test_our_environment_is_nowhere_inside[root]",),
    ),
    "argument hiding": Mutation(
        with_spawn(with_plain_arguments),
        (
            f"{LEAKS}::test_no_argument_list_tells_where_things_lie_on_the_host",
            f"{LEAKS}::test_the_argument_list_is_as_short_on_the_host",
        ),
    ),
    "descriptor closing": Mutation(
        with_open_descriptors, (f"{LEAKS}::test_a_descriptor_of_ours_is_not_open_inside",)
    ),
    "read-only root": Mutation(
        without_steps(lambda step: isinstance(step, ReadOnly) and str(step.target) == "/"),
        (
            f"{FILES}::test_nothing_can_be_written_outside_the_writable_mounts[root-/]",
            f"{KERNEL}::test_nothing_unexpected_is_writable",
        ),
    ),
    "read-only /dev": Mutation(
        without_steps(lambda step: isinstance(step, ReadOnly) and str(step.target) == "/dev"),
        (f"{FILES}::test_nothing_can_be_written_outside_the_writable_mounts[root-/dev]",),
    ),
    "read-only mounts": Mutation(
        with_steps(all_writable), (f"{FILES}::test_a_read_only_mount_cannot_be_written_to",)
    ),
    "read-only kernel settings": Mutation(
        lambda patch: patch.setattr(host, "PROC_READ_ONLY", ()),
        (f"{KERNEL}::test_kernel_settings_cannot_be_changed[root-kernel/core_pattern]",),
    ),
    "hidden kernel tables": Mutation(
        without_steps(lambda step: isinstance(step, Mask) and str(step.target).startswith("/proc")),
        (f"{KERNEL}::test_kernel_tables_cannot_be_read[root-slabinfo]",),
    ),
    "sized memory folders": Mutation(
        with_steps(huge),
        (
            f"{FILES}::test_memory_backed_folders_have_a_size[root-/tmp]",
            f"{FILES}::test_memory_backed_folders_have_a_size[root-/dev/shm]",
            f"{FILES}::test_memory_backed_folders_have_a_size[root-$HOME]",
        ),
    ),
    "protections after what they protect": Mutation(
        protections_first, (f"{FILES}::test_a_read_only_part_of_the_workspace_stays_so",)
    ),
    "mounts in order of depth": Mutation(
        binds_in_any_order,
        (f"{FILES}::test_a_writable_folder_inside_a_read_only_one_is_reached_whatever_the_order",),
    ),
    "the look at the walls": Mutation(
        lambda patch: None,
        (
            f"{FILES}::test_a_source_swapped_for_a_link_is_noticed_before_anything_runs",
            f"{FILES}::test_a_target_behind_a_link_is_noticed_before_anything_runs",
        ),
    ),
    "the look for links before a start": Mutation(
        lambda patch: patch.setattr(ways, "check", lambda mounts: None),
        (
            *(
                f"{WAYS}::test_a_link_that_an_agent_left_leads_no_start_outside[{start}]"
                for start in ("exec", "auth", "start", "setup", "in-place", "gather", "install")
            ),
            f"{WAYS}::test_a_link_that_setup_left_in_the_home_leads_the_agents_start_nowhere",
            f"{WAYS}::test_a_link_that_a_filter_left_in_the_home_leads_setup_nowhere",
            f"{WAYS}::test_nothing_is_made_behind_a_link_whatever_is_to_be_mounted[root-text-read-only]",
            f"{WAYS}::test_nothing_is_written_through_a_link_at_the_place_itself[user-text-rc]",
            f"{WAYS}::test_a_folder_mounted_over_others_is_looked_at_itself[root]",
            f"{AGENTS}::test_a_link_left_in_its_home_leads_the_next_turns_mounts_nowhere[a-folder]",
        ),
        keep_check=True,
    ),
    "the gate": Mutation(open_gate, (f"{RESOURCES}::test_nothing_runs_before_its_limits_hold",)),
    "refused mounts": Mutation(
        nothing_refused,
        (
            f"{MOUNTS}::test_a_folder_that_holds_too_much_cannot_be_mounted",
            f"{MOUNTS}::test_the_home_is_no_workspace",
        ),
    ),
    "memory limit": Mutation(
        without_limit("memory"), (f"{RESOURCES}::test_a_memory_hog_is_stopped",)
    ),
    "process limit": Mutation(
        without_limit("pids"), (f"{RESOURCES}::test_a_fork_bomb_is_bounded",)
    ),
    "processor limit": Mutation(
        without_limit("cpus"), (f"{RESOURCES}::test_processor_time_is_rationed",)
    ),
    "file size limit": Mutation(
        without_limit("file_size"), (f"{RESOURCES}::test_a_giant_file_cannot_be_made",)
    ),
    "descriptor limit": Mutation(
        without_limit("open_files"), (f"{RESOURCES}::test_descriptors_are_bounded",)
    ),
    "free disk floor": Mutation(
        without_limit("disk_free"),
        (
            f"{RESOURCES}::test_a_disk_is_not_filled_to_the_brim[root]",
            f"{RESOURCES}::test_inodes_are_not_used_up[root]",
        ),
    ),
    "time limit": Mutation(
        lambda patch: patch.setattr(BubblewrapSandbox, "_time_out", _never),
        (f"{RESOURCES}::test_a_run_without_end_is_ended",),
    ),
    "a hidden first process": Mutation(
        without_steps(lambda step: str(step.target) == "/proc/1"),
        (
            f"{RESOURCES}::test_the_memory_of_the_first_process_is_out_of_reach",
            f"{FILES}::test_the_program_that_made_the_sandbox_cannot_be_changed_from_inside",
        ),
    ),
    "an end for the first process too": Mutation(
        lambda patch: patch.setattr(
            BubblewrapSandbox,
            "_end_now",
            lambda sandbox: sandbox._child.signal(9),
        ),
        (f"{RESOURCES}::test_a_run_that_took_over_its_first_process_is_ended_too[user]",),
    ),
    "protected settings": Mutation(
        lambda patch: patch.setattr(protect, "PROTECTED", ()),
        (
            f"{WORKSPACE}::test_what_the_host_obeys_cannot_be_changed",
            f"{WORKSPACE}::test_what_the_host_would_obey_cannot_be_created",
        ),
    ),
    "anchored parents": Mutation(
        without_steps(
            lambda step: isinstance(step, Bind) and step.writable and step.target.name == ".claude"
        ),
        (f"{WORKSPACE}::test_a_parent_of_a_protected_path_cannot_be_renamed_away",),
    ),
    "masked sockets": Mutation(
        without_steps(lambda step: isinstance(step, Mask) and step.target.name.endswith(".sock")),
        (f"{WORKSPACE}::test_a_socket_of_the_host_in_the_workspace_is_out_of_reach",),
    ),
    "unshared hard links": Mutation(
        lambda patch: patch.setattr(
            unshare, "unshare", lambda root, shared, owner: unshare.Unshared(0, 0, 0, 0)
        ),
        (f"{WORKSPACE}::test_a_file_with_a_name_outside_is_not_changed_there",),
    ),
    **{
        name: Mutation(take_out, noticed_by)
        for name, (take_out, noticed_by) in (ENTERING | RUNS | EGRESS | WHOLE).items()
    },
}


def _without_hostname(argv: tuple[str, ...], options: dict[str, object]) -> tuple[str, ...]:
    expanded = list(with_plain_arguments(argv, options))
    at = expanded.index("--hostname")
    del expanded[at : at + 2]
    return tuple(expanded)


async def _never(*args: object) -> None:
    """Stands for the time that never comes."""
