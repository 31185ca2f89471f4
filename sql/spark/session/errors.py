"""Spark's errors as ours: its message without its inner names, at the place in the text the user wrote."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

import model.errors
from model.errors import (
    AnalysisError,
    ExecutionError,
    LakeError,
    OutOfMemory,
    SnapshotNotExist,
    SqlError,
    SqlSyntaxError,
    StatementCanceled,
    StorageFull,
    Unavailable,
    UnsupportedType,
)
from sql.parsing.positions import place
from sql.spark.driver.probe import DAMAGED
from sql.spark.session.damage import Reading, data_files_in

_SQLSTATE = re.compile(r"\s{0,9}SQLSTATE: \w{5}")
_CONTEXT = re.compile(r"\s{0,9}== SQL.*", re.DOTALL)
_PLAN = re.compile(r";\s*\n'?\w.*", re.DOTALL)
_USER = re.compile(r"\[USER_RAISED_EXCEPTION\] ?")
_AT = re.compile(r"; line \d+ pos \d+;?")
"""Where Spark saw it: in the text it was given, not in the user's."""
_ADVICE = re.compile(
    r" If necessary set [^\n]{1,200}? to bypass this error\."
    r"|\s(?:If you want|To restore|To revert|To enable|To re-enable)\b(?:(?!\. )[^\n]){0,200}?"
    r" set \"spark\.[\w.]+\" (?:(?!\. )[^\n]){0,150}?\.(?=\s|\Z)"
)
"""Settings of Spark that would change what it refuses: no session has them."""
_TWICE = re.compile(r"Duplicate map key (.{1,1000}?) was found, please check the input data\.", re.DOTALL)
_WRAPPED = re.compile(
    r"^(: |Caused by: )?((\w+\.)+[\w$]+(: |$))?((Exception thrown in awaitResult|Job aborted|An error occurred while calling \S+\.):?\s*$)?"
)
"""What stands before the words of an exception, and words that only say that there was another."""
_STOPPED = re.compile(r"stopped SparkContext|SparkContext (was|has been) (shut ?down|stopped)|ExecutorLostFailure \(executor driver\b")
"""The executor ``driver`` is the only one of a Spark in this machine, and lives in its JVM."""
_KILLED = re.compile(
    r"exited caused by one of the running tasks\) Reason: [^\n]{0,1000}"
    r"(?:\b(?:code|status):? (?:52|137|143)\b|exceeding (?:thresholds|(?:\w+ )?memory limits)|possible container OOM)"
)
"""How executors of a cluster end that had too little memory: Spark's own code for it, SIGKILL, SIGTERM, and what masters say of limits."""
_ELSEWHERE = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \([^)\n]* executor (?!driver\b)[^)\n]*\)")
_WAITED = "Exception thrown in awaitResult"
_NO_MEMORY = re.compile(r"OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|is bigger than .{0,300}maxResultSize")
_OWN = re.compile(r"is bigger than .{0,300}maxResultSize|Requested array size exceeds VM limit")
"""What one statement alone brings about, however much memory there is."""
_TOO_DEEP = "StackOverflowError"
_NO_SPACE = "No space left to write the files of the statement. Free space for the warehouse and Spark's scratch files, then repeat it."
_DISK = re.compile(r"Input/output error|Too many open files|Read-only file system|Stale file handle|Mkdirs failed to create")
"""A disk that fails, which the statement cannot help; Hadoop says no more where a directory could not be made."""
_STORE = re.compile(
    r"\b(?:AWS\w+|NoAuthWithAWS|NoAwsCredentials|CredentialInitialization|UnknownStore|SdkClient|S3\w*|AbfsRestOperation|GoogleJsonResponse"
    r"|Storage|java\.nio\.file\.AccessDenied|AccessControl|NoRouteToHost|UnknownHost|UnresolvedAddress"
    r"|(?<=java\.net\.)(?:Connect|Socket|SocketTimeout)|ConnectTimeout|HttpHostConnect|SSL\w*)Exception\b"
    r"|No AWS Credentials|Unable to execute HTTP request|Connection refused|Connection reset|Permission denied"
)
"""A store that cannot be reached, or does not let in who asks, in words of S3A, the libraries of stores, and Java's network."""
_UNLOADED = re.compile(r"Could not initialize class|ExceptionInInitializerError|UnsatisfiedLinkError")
"""A class that failed once while it was made ready, as a codec unpacked on a full disk, fails as long as its JVM lives."""
_APART = re.compile(
    r"ExecutorLostFailure \(executor (?!driver\b)|Python worker exited unexpectedly|FetchFailed(?:Exception)?\b|MetadataFetchFailed"
)
"""Processes of one Spark that lost each other, as on a machine with too much to do."""
_UNSTARTED = r'Cannot run program "[^"\n]*python[^"\n]*"'
_NO_PYTHON = re.compile(rf"Python worker failed to connect back|Timed out while waiting for the Python worker|{_UNSTARTED}")
"""Spark gives a process of Python ten seconds to start, whatever else the machine does; no setting changes that."""
_LACKING = re.compile(
    rf"{_UNSTARTED}[^\n]{{0,300}}error[=:] ?(?:2|8|13|20)\b[^\n]*|Python in worker has different version[^\n,]*|No module named '[\w.]+'"
)
"""What an executor on another machine lacks: a Python (the numbers say that there is none to run), the server's, or its packages."""
_SOURCE = re.compile(r"^(?:\w+\.)*model\.errors\.(\w+): ([^\n]*)", re.MULTILINE)
"""An error of ours in the words of a Python process of Spark's that read for the statement."""
_TABLE = re.compile(r"\b[Tt]able (\S+)")
_DATA = re.compile(r"SQLSTATE: (2[123]\w{3})")
"""The class of a failure that lies in values: cardinality, data, constraints (ISO 9075)."""
_NO_CODEC = re.compile(r"Class (?:\w+\.)*(\w+)Codec was not found")
_PLACES = re.compile(r"\b(?:file|hdfs|s3a?|gs|abfss?):/[^\s'\"`]*/")
"""Where files lie, which is not told; their names are."""
_TASK = re.compile(
    r"\AJob aborted due to stage failure: .{0,200}?most recent failure: Lost task \S{1,20} in stage \S{1,20} \(TID \d{1,20}\) "
    r"\(.{0,300}? executor \S{1,100}: "
)
"""What stands before the words of a task's exception. A caller's own words may begin so over and over, so that it is looked for once."""
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_OF_HADOOP = "FSError"
"""What Hadoop makes of a local disk that does not do as asked; the disk's own words follow, where they got so far."""


@contextlib.contextmanager
def translating(source: str, views: Mapping[str, str], lost: Callable[[], None], reading: Reading | None = None) -> Iterator[None]:
    """Raise what Spark raises as a `LakeError`; ``views`` maps view names to users' table names; ``lost`` hears of a Spark that is gone.

    A data file of ``reading`` that Spark could not read is looked at: where it is not what was written, that is the error.
    """
    try:
        yield
    except LakeError:
        raise
    except (PySparkException, Py4JError, ConnectionError) as problem:
        raise failure_of(problem, source, views, lost, reading) from problem


def failure_of(
    problem: PySparkException | Py4JError | ConnectionError,
    source: str,
    views: Mapping[str, str],
    lost: Callable[[], None],
    reading: Reading | None = None,
) -> LakeError:
    """An exception of Spark as the error its client is told; for the arguments see `translating`."""
    try:
        return _meant(problem, source, views, lost, reading)
    except (Py4JError, ConnectionError):  # the words of an exception lie in the JVM, which may have died of it
        return _gone(lost)


def _meant(
    problem: PySparkException | Py4JError | ConnectionError,
    source: str,
    views: Mapping[str, str],
    lost: Callable[[], None],
    reading: Reading | None,
) -> LakeError:
    """What an exception of Spark says; raises one of Py4J's or a `ConnectionError` where the JVM cannot be asked for its words."""
    if _lost_peer(problem):
        return _gone(lost)
    chain = "\n".join(_chain(problem))
    if isinstance(problem, PySparkException):
        meant = translated(problem, source, views)
    elif not isinstance(problem, Py4JJavaError) or _STOPPED.search(str(problem.java_exception)):
        return _gone(lost)
    elif _is_full(chain):  # with its causes: a failed write's first words name the file, and only the last ones the full disk
        return StorageFull(_NO_SPACE)
    else:
        meant = _java(f"{problem.java_exception}\n{chain}", source, views)
    damage = None if reading is None else reading.damage(chain)
    if error := damage or _ours(chain) or _packed(chain):
        return error
    failure = _told(meant, chain, lost)
    if reading is None or not isinstance(failure, ExecutionError) or failure.sqlstate is not None or _USER.search(chain):
        return failure  # of what is around the files, or of values: it says nothing about a file
    return reading.unreadable(f"{chain}\n{getattr(problem, '_stackTrace', None) or ''}") or failure


def _lost_peer(problem: BaseException) -> bool:
    """Whether an exception comes of a JVM that went away; pyspark makes others of it, as when it asks for a result's columns."""
    at: BaseException | None = problem
    while isinstance(at, PySparkException):
        at = at.__cause__ or at.__context__
    return isinstance(at, Py4JError | ConnectionError) and not isinstance(at, Py4JJavaError)  # Java's own come with an exception


def _packed(chain: str) -> UnsupportedType | None:
    """The error of a file that is whole and packed with a codec Spark does not bring, such as brotli or lzo; None for other failures."""
    codec = _NO_CODEC.search(chain)
    file = None if codec is None else next(data_files_in(chain), None)
    if codec is None or file is None:
        return None
    return UnsupportedType(
        f"{file} is packed with {codec[1].lower()}, which Spark cannot unpack: write it anew with another codec, or give Spark the "
        "class by SLUICE_SPARK_JARS."
    )


def _ours(chain: str) -> LakeError | None:
    """The error of ours that made Spark fail, where a process of Spark's raised it; None for other failures."""
    for name, message in _SOURCE.findall(chain):
        kind = getattr(model.errors, name, None)
        if not isinstance(kind, type) or not issubclass(kind, LakeError):
            continue
        if issubclass(kind, StorageFull):
            return StorageFull(message)
        if issubclass(kind, SnapshotNotExist):  # of a stream: a job does not begin again where it cannot go on
            table = _TABLE.search(message)
            return SnapshotNotExist(message, resource_name=table[1] if table else "")
        return Unavailable(message) if kind.status >= 500 else ExecutionError(message)
    return None


def _told(error: LakeError, chain: str, lost: Callable[[], None]) -> LakeError:
    """The error, unless its causes tell that memory was short, the text too deep, or Spark itself broken."""
    if not isinstance(error, ExecutionError):
        return error
    if (short := _of_memory(chain, lost)) is not None:
        return short
    if _UNLOADED.search(chain):
        return _gone(lost)
    if DAMAGED.search(chain) and not _USER.search(chain) and not _DATA.search(chain):
        lost()
        return Unavailable("Something in Spark's memory is damaged. It is started anew where that lasts; try again in a moment.")
    if (process := _of_processes(chain)) is not None:
        return process
    if _TOO_DEEP in chain:
        return SqlSyntaxError("The statement is nested or chained too deeply for Spark; take it apart.")
    if _STOPPED.search(chain) or (error.message.startswith("Spark failed (") and _WAITED in chain):
        return _gone(lost)
    if matches := _DATA.findall(chain):
        error.sqlstate = matches[-1]
        return error
    if _is_full(chain):
        return StorageFull(_NO_SPACE)
    return _of_the_disk(chain) or _of_the_store(chain) or error


def _of_memory(chain: str, lost: Callable[[], None]) -> OutOfMemory | None:
    """The error of a statement that had not enough memory: where that was a cluster's executors', the driver need not be started anew."""
    is_short, is_said = _NO_MEMORY.search(chain), _USER.search(chain) or _DATA.search(chain)  # values may say anything
    if is_short and (is_said or not _ELSEWHERE.search(chain) or "maxResultSize" in chain):
        lost()
        error = OutOfMemory(
            "The statement needs more memory than Spark has here. Read fewer rows or columns at once, or give Spark more: "
            "SLUICE_SPARK_DRIVER_MEMORY."
        )
        error.own = _OWN.search(chain) is not None
        return error
    if is_said or not (is_short or _KILLED.search(chain)):
        return None
    return OutOfMemory(
        "The statement needs more memory than Spark's executors have. Read fewer rows or columns at once, or give them more: "
        "spark.executor.memory, and spark.executor.memoryOverhead for Python, in SLUICE_SPARK_CONF."
    )


def _of_the_store(chain: str) -> Unavailable | None:
    if _USER.search(chain) or _DATA.search(chain):  # values may say anything
        return None
    names = list(dict.fromkeys(match[0] for match in _STORE.finditer(chain)))
    return (
        Unavailable(
            f"Spark could not reach or use what the statement reads or writes: {', '.join(names[-3:])}. Its executors need the network and "
            "the keys that the server has for the store of the files, and settings of SLUICE_SPARK_CONF there; try again in a moment."
        )
        if names
        else None
    )


def _of_processes(chain: str) -> Unavailable | None:
    if _USER.search(chain) or _DATA.search(chain):  # values may say anything
        return None
    if (lacking := _LACKING.search(chain)) is not None:
        said = re.sub(r'"[^"]*/', '"', lacking[0])
        return Unavailable(
            f"An executor of Spark lacks what it needs of Python: {said}. Each needs a python3 of the server's minor version in its PATH "
            "and the server's packages: `sluice spark-archive` writes them, and SLUICE_SPARK_ARCHIVE names what it wrote."
        )
    if _NO_PYTHON.search(chain):
        return Unavailable(
            "A process of Python that Spark needs for the statement did not start in time: the machine is busy. Try again later."
        )
    if _APART.search(chain):
        return Unavailable("Processes of Spark lost each other while the statement ran; try again in a moment.")
    return None


def _is_full(chain: str) -> bool:
    """Whether a disk has no space: it says so, or Hadoop tells of one that fails and nothing that it fails otherwise."""
    return _FULL.search(chain) is not None or (_OF_HADOOP in chain and _DISK.search(chain) is None)


def _of_the_disk(text: str) -> Unavailable | None:
    match = _DISK.search(text)
    return match and Unavailable(f"Spark could not use the disk that the warehouse or its scratch files lie on: {match[0]}.")


def _gone(lost: Callable[[], None]) -> Unavailable:
    lost()
    return Unavailable("Spark went away while the statement ran. It is being started anew; try again in a moment.")


def translated(problem: PySparkException, source: str, views: Mapping[str, str]) -> LakeError:
    """A Spark exception as the error its client is told."""
    refused = getattr(problem, "_cause", None)
    if type(problem).__name__ == "StreamingQueryException" and isinstance(refused, AnalysisException):
        return translated(refused, source, views)  # the planner's word on the query, which it says in the first micro-batch
    condition = problem.getCondition() or ""
    text = str(problem)
    if condition.startswith("SPARK_JOB_CANCELLED") or "SPARK_JOB_CANCELLED" in text or "cancelled part of cancelled job group" in text:
        return StatementCanceled("The statement was canceled.")
    if not condition or condition.startswith("FAILED_READ_FILE"):
        return _java("\n".join(_chain(problem)), source, views)
    fragment = _fragment(problem)
    message = _clean(text, views)
    kind: type[SqlError] = ExecutionError
    if condition.startswith("PARSE"):
        kind = SqlSyntaxError
    elif type(problem).__name__ in ("AnalysisException", "ParseException"):
        kind = AnalysisError
    line, column = place(source, fragment)
    return kind(message, line=line, column=column, fragment=fragment)


def _chain(problem: BaseException) -> list[str]:
    """The messages of an exception and of what caused it, outermost first."""
    messages: list[str] = []
    at: BaseException | None = problem
    while at is not None and len(messages) < 10:
        messages.append(str(at))
        cause = getattr(at, "_cause", None)
        at = cause if isinstance(cause, BaseException) else at.__cause__
    return messages


def _java(text: str, source: str, views: Mapping[str, str]) -> LakeError:
    if _FULL.search(text):
        return StorageFull(_NO_SPACE)
    if (disk := _of_the_disk(text)) is not None:
        return disk
    messages = re.findall(r"\[[A-Z][A-Z0-9_.]+\] [^\n]*", text)
    if messages:  # the innermost cause says what was wrong
        return ExecutionError(_clean(messages[-1], views))
    said = (_WRAPPED.sub("", _TASK.sub("", _WRAPPED.sub("", line.strip()))) for line in text.splitlines())
    named = re.search(r"(?:\w+\.)+(\w+)", text)
    nothing = f"Spark failed ({named[1] if named else 'no reason given'}); its log says more."
    return ExecutionError(_clean(next((line for line in said if line and not line.startswith("at ")), nothing), views))


def _fragment(problem: PySparkException) -> str | None:
    """The part of the query Spark points at."""
    with contextlib.suppress(Exception):  # older or stranger exceptions have no context; then there is no place to tell
        for context in problem.getQueryContext():
            if text := context.fragment():
                return str(text)
    if match := re.search(r"with name (`[^`]+`(?:\.`[^`]+`)*) cannot be resolved", str(problem)):
        return match[1].replace("`", "")
    return None


def _clean(text: str, views: Mapping[str, str]) -> str:
    text = text.split("\n\tat ")[0]
    text = _CONTEXT.sub("", text)
    text = _AT.sub("", _PLAN.sub("", text))
    text = _PLACES.sub("", _TASK.sub("", _USER.sub("", text)))
    text = _TWICE.sub(r"A MAP would have the key \1 twice.", _ADVICE.sub("", _SQLSTATE.sub("", text)))
    for view, name in views.items():
        text = text.replace(f"`{view}`", name).replace(view, name)
    return text.strip()
