"""The command line: parse, call one library function, show or write what it returns."""

import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedskew.engine import Validation

app = typer.Typer(
    name="fedskew",
    help="How skewed are your silos, which federated algorithm suits that skew, and is that true on your data?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help pages take 0.15 s to import; --help is to answer at once
)

KEPT = "what was finished is kept: run the same command again to go on"
Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="SOURCE...",
        show_default=False,
        help="A CSV, TSV, Parquet, Arrow, npz, svmlight or index file; silo files; a folder of them, of images, or of "
        "MNIST, CIFAR, SVHN or LEAF files.",
    ),
]
Label = Annotated[str | None, typer.Option(help="Column to predict.")]
Party = Annotated[str | None, typer.Option(help="Column that names each row's party (silo).")]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out: a,b,c.")]
Features = Annotated[str | None, typer.Option(help="Columns to use and no others: a,b,c.")]
Test = Annotated[
    Path | None,
    typer.Option(help="Held-out test table; else a quarter of each party is held out."),
]
Task = Annotated[str | None, typer.Option(help="classification or regression.")]
Modality = Annotated[str | None, typer.Option(help="tabular or image.")]
Delimiter = Annotated[str | None, typer.Option(help="Of text files; default: comma.")]
Encoding = Annotated[str | None, typer.Option(help="Of text files; default: UTF-8.")]
OnBadRow = Annotated[str, typer.Option(help="error or skip: rows with too few or too many fields.")]
Participation = Annotated[float, typer.Option(help="Share of the parties that take part in a round.")]
Stateless = Annotated[bool, typer.Option("--stateless-clients", help="Parties cannot keep anything between rounds.")]
Bandwidth = Annotated[float | None, typer.Option(help="Bytes a party may move in a round.")]
BatchNorm = Annotated[bool, typer.Option("--has-batchnorm", help="The model has BatchNorm layers.")]
Goal = Annotated[str, typer.Option(help="global or personal: one model for all, or one a party.")]
Preset = Annotated[str | None, typer.Option(help="quick, standard or paper; default: quick.")]
Algorithms = Annotated[
    str | None,
    typer.Option(help="Candidates: a,b,c; shortlist (advice, FedAvg, the evidence's first five); default: all."),
]
Rounds = Annotated[int | None, typer.Option(help="Communication rounds.")]
Seeds = Annotated[int | None, typer.Option(help="Number of paired seeds.")]
LocalEpochs = Annotated[int | None, typer.Option(help="Local epochs a round.")]
BatchSize = Annotated[int | None, typer.Option(help="Minibatch size.")]
Lr = Annotated[float | None, typer.Option(help="Local learning rate; tuning tries 0.3 to 10 times it.")]
Model = Annotated[str | None, typer.Option(help="Model name or module:factory; default: by modality.")]
MaxRows = Annotated[int | None, typer.Option(help="Train on at most this many rows.")]
Jobs = Annotated[int | None, typer.Option(help="Worker processes; default: one a core.")]
Backend = Annotated[str, typer.Option(help="local or ray: where the trials run.")]
Address = Annotated[
    str | None,
    typer.Option(metavar="auto|HOST:PORT", help="A running Ray cluster; default: one is started here."),
]
Recommended = Annotated[str | None, typer.Option(help="The algorithm the verdict is about; default: ask recommend.")]
Run = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="Keep the run here; the same command resumes it."),
]
NoTuning = Annotated[bool, typer.Option("--no-tuning", help="Run the given hyperparameters as they are.")]
ForceResume = Annotated[bool, typer.Option("--force-resume", help="Resume though options or versions differ.")]
NoReferences = Annotated[bool, typer.Option("--no-references", help="Leave out the centralised and local-only lines.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="ALG.KEY=VALUE", help="Change a hyperparameter."),
]
Json = Annotated[str | None, typer.Option("--json", metavar="PATH|-", help="Write JSON; - is stdout.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="PATH", help="Write one self-contained page.")]
Seed = Annotated[int, typer.Option(help="Base of every random choice.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no tables and no progress.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from fedskew import __version__

        typer.echo(f"fedskew {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
]


@app.callback()
def _root(*, version: Version = False) -> None:
    del version  # its callback has answered


@app.command(short_help="Measure how skewed the silos are, beyond chance.")
def profile(
    source: Sources = None,
    *,
    label: Label = None,
    party: Party = None,
    drop: Drop = None,
    features: Features = None,
    test: Test = None,
    task: Task = None,
    modality: Modality = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    on_bad_row: OnBadRow = "error",
    json_: Json = None,
    html: Html = None,
    quiet: Quiet = False,
) -> None:
    """Measure how skewed the silos are, beyond what chance gives at these sizes.

    SOURCE may also be the files that `fedskew sketch` wrote, one or more a silo.
    """
    options = locals()
    from fedskew.advisor.delivery import deliver
    from fedskew.advisor.sketch_command import read_silos
    from fedskew.profiles import profile as run

    deliver(run(read_silos(source, options)), json_, quiet=quiet, html=html)


@app.command(short_help="Recommend an algorithm, with checks, evidence and price.")
def recommend(
    source: Sources = None,
    *,
    label: Label = None,
    party: Party = None,
    drop: Drop = None,
    features: Features = None,
    test: Test = None,
    task: Task = None,
    modality: Modality = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    on_bad_row: OnBadRow = "error",
    participation: Participation = 1.0,
    stateless_clients: Stateless = False,
    bandwidth: Bandwidth = None,
    has_batchnorm: BatchNorm = False,
    goal: Goal = "global",
    local_epochs: LocalEpochs = None,
    batch_size: BatchSize = None,
    model: Model = None,
    json_: Json = None,
    html: Html = None,
    quiet: Quiet = False,
) -> None:
    """Recommend an algorithm by the decision tree of the NIID-Bench paper, with checks, evidence and price.

    SOURCE may also be a profile that `fedskew profile --json` wrote, or the sketches of all silos.
    """
    options = locals()
    from fedskew.advisor import recommend as run
    from fedskew.advisor.arguments import constraints_of, written_profile
    from fedskew.advisor.delivery import deliver
    from fedskew.advisor.sketch_command import read_silos
    from fedskew.profiles import profile as measure

    found = written_profile(source, options) or measure(read_silos(source, options))
    deliver(run(found, **constraints_of(options)), json_, quiet=quiet, html=html)


@app.command(short_help="Train all candidates in short paired runs: a verdict.")
def validate(
    source: Sources = None,
    *,
    like: Annotated[Path | None, typer.Option(metavar="PROFILE.json", help="Imitate these silos.")] = None,
    on: Annotated[Path | None, typer.Option(metavar="SOURCE", help="The proxy data set for --like.")] = None,
    label: Label = None,
    party: Party = None,
    drop: Drop = None,
    features: Features = None,
    test: Test = None,
    task: Task = None,
    modality: Modality = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    on_bad_row: OnBadRow = "error",
    preset: Preset = None,
    algorithms: Algorithms = None,
    recommended: Recommended = None,
    rounds: Rounds = None,
    seeds: Seeds = None,
    local_epochs: LocalEpochs = None,
    batch_size: BatchSize = None,
    lr: Lr = None,
    participation: Participation = 1.0,
    model: Model = None,
    max_rows: MaxRows = None,
    jobs: Jobs = None,
    backend: Backend = "local",
    address: Address = None,
    run: Run = None,
    no_tuning: NoTuning = False,
    no_references: NoReferences = False,
    set_: Set = None,
    force_resume: ForceResume = False,
    json_: Json = None,
    html: Html = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train all candidates in short paired runs and return a verdict on the recommended one.

    With --like PROFILE.json --on SOURCE the silos are a look-alike, made of the rows of another data set.
    """
    options = locals()
    from fedskew.advisor import recommend as choose
    from fedskew.advisor.advice import candidates_of
    from fedskew.advisor.arguments import constraints_of, read_look_alike, training_options
    from fedskew.advisor.delivery import begin, deliver, watching
    from fedskew.advisor.sketch_command import read_silos, rows_of
    from fedskew.engine import validate as check
    from fedskew.profiles import profile as measure

    training = training_options(options)
    partition = read_look_alike(like, on, source, options) if like or on else rows_of(read_silos(source, options))
    advice = None
    if recommended is None or algorithms == "shortlist":
        ours = choose(measure(partition), **constraints_of(options))
        training["algorithms"] = candidates_of(training["algorithms"], ours)
        if recommended is None:
            advice, recommended = ours, ours.algorithm
    with watching(json_, quiet=quiet) as watchers:
        found = check(partition, recommended=recommended, begun=lambda: begin(run), **watchers, **training)
    known = measure(partition) if run is not None and advice is None else None
    deliver(found, json_, quiet=quiet, html=html, run=run, advice=advice, profile=known)
    _leave(found)


@app.command(short_help="All three: profile, recommend, validate.")
def advise(
    source: Sources = None,
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="Run on the small real data set shipped in the package.")
    ] = False,
    no_validate: Annotated[bool, typer.Option("--no-validate", help="Stop after the recommendation.")] = False,
    label: Label = None,
    party: Party = None,
    drop: Drop = None,
    features: Features = None,
    test: Test = None,
    task: Task = None,
    modality: Modality = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    on_bad_row: OnBadRow = "error",
    participation: Participation = 1.0,
    stateless_clients: Stateless = False,
    bandwidth: Bandwidth = None,
    has_batchnorm: BatchNorm = False,
    goal: Goal = "global",
    preset: Preset = None,
    algorithms: Algorithms = None,
    rounds: Rounds = None,
    seeds: Seeds = None,
    local_epochs: LocalEpochs = None,
    batch_size: BatchSize = None,
    lr: Lr = None,
    model: Model = None,
    max_rows: MaxRows = None,
    jobs: Jobs = None,
    backend: Backend = "local",
    address: Address = None,
    run: Run = None,
    no_tuning: NoTuning = False,
    no_references: NoReferences = False,
    set_: Set = None,
    force_resume: ForceResume = False,
    json_: Json = None,
    html: Html = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Do all three: profile the silos, recommend an algorithm, and check the advice on your data.

    With --no-validate SOURCE may also be the sketches of all silos.
    """
    options = locals()
    from fedskew.advisor import advise as advise_on
    from fedskew.advisor import demo_partition
    from fedskew.advisor.arguments import check_outputs, constraints_of, refuse_training, training_options
    from fedskew.advisor.delivery import begin, deliver, watching
    from fedskew.advisor.sketch_command import read_silos, rows_of

    if no_validate:
        refuse_training(options)
    training = training_options(options)
    check_outputs(options)
    silos = demo_partition() if demo else read_silos(source, options)
    partition = silos if no_validate else rows_of(silos)
    if no_validate:
        begin(run, trains=False)
    how = {**training, "constraints": constraints_of(options), "begun": lambda: begin(run)}
    with watching(json_, quiet=quiet) as watchers:
        found = advise_on(partition, validated=not no_validate, **how, **watchers)
    deliver(found, json_, quiet=quiet, html=html, run=run)
    _leave(found.validation)


@app.command(short_help="Show an answer again, or write it as one HTML page.")
def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", show_default=False, help="A run folder, or what profile … advise wrote with --json."
        ),
    ],
    *,
    html: Html = None,
    quiet: Quiet = False,
) -> None:
    """Show what a finished run found, or write it as one self-contained HTML page with --html.

    RUN is the folder given to --run of validate or advise, or a file that profile, recommend, validate or advise
    wrote with --json.
    """
    from fedskew.advisor.delivery import deliver_again

    deliver_again(source, quiet=quiet, html=html)


exports = typer.Typer(help="Write an app that runs what was found.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(exports, name="export")


@exports.command(short_help="Write a Flower app.")
def flower(
    source: Annotated[Path, typer.Argument(metavar="RUN", show_default=False, help="As for `fedskew report`.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make.")],
    algorithm: Annotated[str | None, typer.Option(help="Another than was found; NAME+wsm too.")] = None,
) -> None:
    """Write a Flower app of the verdict's winner, else of the recommended algorithm: server and client side."""
    from fedskew.advisor.export import export_answer

    typer.echo(export_answer(source, out, algorithm))


@app.command(short_help="Sketch silos: sums that leave a silo, never a row.")
def sketch(
    source: Sources = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="The sketch file to write.")],
    plan: Annotated[Path | None, typer.Option(metavar="PLAN", help="Adds the joint feature index.")] = None,
    min_count: Annotated[int | None, typer.Option(help="Withhold what rests on fewer rows than this.", min=2)] = None,
    hash_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The silos' secret: adds keyed hashes of rows; needs --plan.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Label counts only, with the noise of differential privacy; needs --plan.")
    ] = None,
    spend_again: Annotated[bool, typer.Option("--spend-again", help="Draw noise anew over spent epsilon.")] = False,
    label: Label = None,
    party: Party = None,
    drop: Drop = None,
    features: Features = None,
    task: Task = None,
    modality: Modality = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    on_bad_row: OnBadRow = "error",
    quiet: Quiet = False,
) -> None:
    """Write the sufficient statistics of silos into a file: no rows, and all that profile needs.

    Without --party each file is one silo, named by its stem, unless it names parties itself, as npz files may.
    """
    from fedskew.advisor.sketch_command import make_sketches

    options = {**locals(), "test": None}
    if not source:
        raise _wrong("no SOURCE given: name a file, silo files or a folder of them")
    told = make_sketches(source, out, options)
    if not quiet:
        typer.echo(told)


@app.command(short_help="Fix what the second round of sketches needs.")
def plan(
    source: Annotated[
        list[Path] | None, typer.Argument(metavar="SKETCH...", show_default=False, help="The sketches of all silos.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="PLAN.json", help="The plan file to write.")],
    classes: Annotated[str | None, typer.Option(help="Declare the classes instead: a,b,c (for --epsilon).")] = None,
    quiet: Quiet = False,
) -> None:
    """Fix pooled scale, classes, columns and categories, and which rows of large silos enter the kernel sums."""
    from fedskew.advisor.sketch_command import write_plan_of

    told = write_plan_of(source or [], out, classes)
    if not quiet:
        typer.echo(told)


@app.command(short_help="Split a table into parties of known skew.")
def partition(
    source: Sources = None,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="INDEX.json", help="The index file to write (.json or .npz).")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="Name, alias, or several joined by +; --list shows all.")
    ] = "label_dirichlet",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any parameter of the strategy.")
    ] = None,
    num_partitions: Annotated[int | None, typer.Option(help="Number of parties.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Dirichlet concentration of the labels.")] = None,
    quantity_beta: Annotated[float | None, typer.Option(help="Dirichlet concentration of the party sizes.")] = None,
    classes_per_party: Annotated[int | None, typer.Option(help="Classes a party holds.")] = None,
    noise: Annotated[float | None, typer.Option(help="Level of the feature noise.")] = None,
    min_partition_size: Annotated[int | None, typer.Option(help="Fewest rows of a party.")] = None,
    write_silos: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write one file a party.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show all strategies and their parameters.")] = False,
    label: Label = None,
    party: Party = None,
    drop: Drop = None,
    features: Features = None,
    test: Test = None,
    task: Task = None,
    modality: Modality = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    on_bad_row: OnBadRow = "error",
    json_: Json = None,
    seed: Seed = 42,
    quiet: Quiet = False,
) -> None:
    """Split a table into parties of known skew, by any strategy of NIID-Bench and others; writes an index file."""
    options = locals()
    from fedskew.advisor.arguments import check_outputs, pair, reading_options
    from fedskew.advisor.delivery import deliver
    from fedskew.profiles.partitioning import partition_source
    from fedskew.profiles.strategies.describe import describe_strategies

    if list_:
        if json_ is not None:
            raise _wrong("--list prints text and writes no JSON; leave out --json")
        typer.echo(describe_strategies())
        return
    if not source or out is None:
        raise _wrong("give a SOURCE and --out INDEX.json (or --list to see the strategies)")
    check_outputs(options)
    names = ("num_partitions", "alpha", "quantity_beta", "noise", "min_partition_size")
    parameters = {name: str(options[name]) for name in names if options[name] is not None}
    if classes_per_party is not None:
        parameters["num_classes_per_partition"] = str(classes_per_party)
    for name, value in map(pair, set_ or []):
        if name in parameters:
            raise _wrong(f"{name} is given twice: {parameters[name]} and {value}")
        parameters[name] = value
    made = partition_source(
        source,
        strategy,
        out,
        seed=seed,
        parameters=parameters,
        write_silos=write_silos,
        reading=reading_options(options),
    )
    deliver(made, json_, quiet=quiet)


@app.command(short_help="Run a grid of settings: evidence, tables, leaderboard.")
def study(
    source: Annotated[
        str | None, typer.Argument(metavar="STUDY.toml|PRESET", show_default=False, help="A study file, or a preset.")
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep everything here; the same command resumes."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the data; default: FEDSKEW_DATA."),
    ] = None,
    scale: Annotated[str, typer.Option(metavar="KEY=N,...", help="Cap rows, rounds, seeds, local_epochs.")] = "",
    only: Annotated[str, typer.Option(metavar="TEXT,...", help="Only settings whose title holds a text.")] = "",
    candidates: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Candidates in the place of the study's, such as 'fedavg,fedprox mu=1'."),
    ] = "",
    jobs: Jobs = None,
    backend: Backend = "local",
    address: Address = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and what it takes.")] = False,
    curves: Annotated[bool, typer.Option("--curves", help="Also draw the learning curves as SVG.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the presets.")] = False,
    json_: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run a study: data sets, partitions and candidates of a TOML file, one setting after the other, resumable."""
    options = {name.rstrip("_"): value for name, value in locals().items() if name != "source"}
    from fedskew.advisor.study.command import Order, study_command

    if code := study_command(source, Order(**options)):
        raise typer.Exit(code)


def _leave(found: "Validation | None") -> None:
    """Exit with code 1 where no candidate succeeded."""
    if found is not None and found.verdict.kind == "all_failed":
        raise typer.Exit(1)


class _TerminatedError(BaseException):
    """SIGTERM arrived; a BaseException, so that nothing but ``main`` catches it."""


def _terminate(number: int, frame: object) -> None:  # noqa: ARG001
    raise _TerminatedError


def main() -> None:
    """Run the command line and turn every outcome into an exit code and at most one line."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        code = app(standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            _complain(f"interrupted; {KEPT}", 130)
    except _TerminatedError:
        code = _complain(f"terminated; {KEPT}", 143)
    except KeyboardInterrupt:
        code = _complain(f"interrupted; {KEPT}", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - the border to the user: whatever is not known here is told as a bug
        code = _explain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(text: str, code: int) -> int:
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    sys.stderr.write(f"fedskew: {safe}\n")
    return code


def _explain(error: Exception) -> int:
    """Tell in one line what is wrong with the input, the usage or the machine; write a crash note for our own bugs."""
    from fedskew.profiles.errors import EnvironmentFaultError, FedskewError, missing_package

    if isinstance(error, ModuleNotFoundError) and not (error.name or "fedskew").startswith("fedskew"):
        error = missing_package(error)
    if isinstance(error, FedskewError):
        return _complain(str(error), error.exit_code)
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # torch raises a RuntimeError
        text = "out of memory; try --max-rows, fewer columns, or --jobs 1"
        return _complain(text, EnvironmentFaultError.exit_code)
    if isinstance(error, RecursionError):
        return _complain("the input is nested deeper than any file of fedskew; give what --json wrote", 2)
    if isinstance(error, OSError):  # whatever the machine refuses that nobody foresaw
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}", EnvironmentFaultError.exit_code)
    if isinstance(error, typer.Abort):  # what older versions make of Ctrl-C
        return _complain(f"interrupted; {KEPT}", 130)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if type(error).__name__ == "NoArgsIsHelpError":  # of click, or of typer's own copy of it
        sys.stderr.write(f"{error.ctx.get_help()}\n")  # type: ignore[attr-defined]
        return 2
    if hasattr(error, "format_message"):  # click's usage errors; typer 0.29 brings its own copy of click
        return _complain(" ".join(error.format_message().split()) + " (see --help)", 2)
    handle, path = tempfile.mkstemp(prefix="fedskew-crash-", suffix=".txt", text=True)
    with os.fdopen(handle, "w") as note:
        note.write("".join(traceback.format_exception(error)))
    return _complain(f"this is a bug ({type(error).__name__}: {error}); a crash note is in {path}", 4)


def _wrong(text: str) -> Exception:
    from fedskew.profiles.errors import FedskewError

    return FedskewError(text)


if __name__ == "__main__":
    main()
