"""What is kept of Spark's words: where and how something failed, and no value of a row."""

from __future__ import annotations

from collections.abc import Iterator

from sql.spark.driver.words import without_values

FAILED = """\
26/11/29 16:07:43 ERROR Executor: Exception in task 0.0 in stage 38.0 (TID 27)
org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'Erika
Mustermann' of the type "STRING" cannot be cast to "INT" because it is malformed. SQLSTATE: 22018
== SQL (line 1, position 8) ==
SELECT CAST('Erika
Mustermann' AS INT) FROM `__sluice_6e45...
       ^^^^^^^^^^^^^^^^^

\tat org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:906)
Caused by: java.lang.NumberFormatException: For input string: "Erika"
\t... 12 more
26/11/29 16:07:43 ERROR TaskSetManager: Task 0 in stage 38.0 failed 1 times; aborting job
26/11/29 16:07:44 WARN Reader: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file /w/data-1.parquet. SQLSTATE: KD001
Caused by: java.io.IOException: No space left on device
26/11/29 16:07:45 WARN Odd: [NO_STATE] Erika
26/11/29 16:07:46 WARN Odd: [NO_STATE] Erika"""
KEPT = """\
26/11/29 16:07:43 ERROR Executor: Exception in task 0.0 in stage 38.0 (TID 27)
org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] ****** SQLSTATE: 22018

\tat org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:906)
Caused by: java.lang.NumberFormatException: ******
\t... 12 more
26/11/29 16:07:43 ERROR TaskSetManager: Task 0 in stage 38.0 failed 1 times; aborting job
26/11/29 16:07:44 WARN Reader: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file /w/data-1.parquet. SQLSTATE: KD001
Caused by: java.io.IOException: No space left on device
26/11/29 16:07:45 WARN Odd: [NO_STATE] ******
26/11/29 16:07:46 WARN Odd: [NO_STATE] ******"""


def test_values_of_rows_and_texts_of_statements_are_left_out() -> None:
    assert list(without_values(FAILED.splitlines())) == KEPT.splitlines()


def test_a_part_of_a_statement_that_is_never_pointed_at_ends_with_the_next_line_of_another_kind() -> None:
    lines = ["== SQL (line 1, position 8) ==", "SELECT 'Erika'", "26/11/29 16:07:43 WARN Executor: on", "== SQL =="]
    assert list(without_values(lines)) == [lines[2]]


def test_a_message_without_an_end_is_not_gathered_forever() -> None:
    lines = ["[CAST_INVALID_INPUT] 'Erika", *["Erika"] * 900, "26/11/29 16:07:43 WARN Executor: on"]
    assert list(without_values(iter(lines))) == ["[CAST_INVALID_INPUT] ******", lines[-1]]
    behind = [lines[-1], *[f"{number}" for number in range(5000)]]
    assert list(without_values(iter([lines[0], *behind]))) == ["[CAST_INVALID_INPUT] ******", *behind]
    taken: list[str] = []

    def coming() -> Iterator[str]:
        for line in [lines[0], *behind]:
            taken.append(line)
            yield line

    kept = without_values(coming())
    assert [next(kept), next(kept)] == ["[CAST_INVALID_INPUT] ******", lines[-1]]
    assert len(taken) < 200


def test_a_value_that_looks_like_another_log_is_left_out() -> None:
    value = ["boom", "\tat a.b(C.java:1)", "Caused by: login of Erika", "26/11/29 16:07:43 ERROR Executor: Erika", "SQLSTATE: 22018 Erika"]
    end = '\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018'
    lines = [f"[CAST_INVALID_INPUT] The value '{value[0]}", *value[1:], end, "\tat x", "[INTERNAL_ERROR] no value. SQLSTATE: XX000"]
    assert list(without_values(lines)) == ["[CAST_INVALID_INPUT] ****** SQLSTATE: 22018", *lines[-2:]]
