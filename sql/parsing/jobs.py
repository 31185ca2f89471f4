"""STOP JOB, ALTER JOB, SHOW JOBS and DESCRIBE JOB."""

from __future__ import annotations

from sqlglot import exp

from sql.parsing import trees
from sql.parsing.base import BaseParser


class JobParser(BaseParser):
    """Statements about jobs."""

    def stop(self) -> exp.Expr:
        """``STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]``, from behind the first word."""
        self.need("JOB")
        job = self.text("the job's id")
        drain = False
        while self.eat("WITH"):
            if self.eat("DRAIN"):
                drain = True
            elif not self.eat("SAVEPOINT"):
                self.fail("DRAIN or SAVEPOINT")
        self.finish()
        return trees.StopJob(job=job, drain=drain)

    def alter_job(self) -> exp.Expr:
        """``ALTER JOB 'id' RESTART``, from behind both words."""
        job = self.text("the job's id")
        self.need("RESTART")
        self.finish()
        return trees.AlterJob(job=job)

    def show_jobs(self) -> exp.Expr:
        """``SHOW JOBS``, from behind the words."""
        self.finish()
        return trees.ShowJobs()

    def describe_job(self) -> exp.Expr:
        """``DESCRIBE JOB 'id'``, from behind the words."""
        job = self.text("the job's id")
        self.finish()
        return trees.DescribeJob(job=job)
