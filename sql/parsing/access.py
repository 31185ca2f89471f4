"""GRANT, REVOKE, roles and policies."""

from __future__ import annotations

import datetime as dt

from sqlglot import exp

from model.access import CATALOG, EVERYTHING, Access, Columns, Resource, ResourceType, access_of
from model.errors import InvalidGrant
from model.work.quota import Holder
from sql.parsing import trees
from sql.parsing.base import BaseParser

_TWO_WORDS = {
    ("CREATE", "DATABASE"): Access.CREATEDATABASE,
    ("CREATE", "TABLE"): Access.CREATETABLE,
    ("CREATE", "VIEW"): Access.CREATEVIEW,
    ("CREATE", "FUNCTION"): Access.CREATEFUNCTION,
}
_SYNONYMS = {"INSERT": Access.UPDATE}


class AccessParser(BaseParser):
    """Statements about who may do what."""

    def grant(self) -> exp.Expr:
        """``GRANT …``, from behind the word."""
        if self.eat("ROLE"):
            return self._role("GRANT", "TO")
        accesses = self._accesses()
        self.need("ON")
        what, name = self._resource()
        self.need("TO")
        principals = self._principals()
        until = self._instant() if self.eat("UNTIL") else None
        self.finish()
        return trees.Grant(accesses=accesses, what=what, name=name, principals=principals, until=until)

    def revoke(self) -> exp.Expr:
        """``REVOKE …``, from behind the word."""
        if self.eat("ROLE"):
            return self._role("REVOKE", "FROM")
        accesses = self._accesses()
        self.need("ON")
        what, name = self._resource()
        self.need("FROM")
        principals = self._principals()
        self.finish()
        return trees.Revoke(accesses=accesses, what=what, name=name, principals=principals)

    def _role(self, verb: str, preposition: str) -> exp.Expr:
        role = self._principal()
        self.need(preposition)
        principals = self._principals()
        self.finish()
        return trees.GiveRole(role=role, principals=principals, give=verb == "GRANT")

    def _accesses(self) -> tuple[tuple[Access, Columns | None], ...]:
        accesses = [self._access()]
        while self.eat(","):
            accesses.append(self._access())
        return tuple(accesses)

    def _access(self) -> tuple[Access, Columns | None]:
        at = self.here
        for words, access in _TWO_WORDS.items():
            if self.eat(*words):
                return access, None
        word = self.word()
        if not word:
            self.fail("an access such as SELECT, UPDATE or ALL")
        self._advance()
        if word == "ALL":
            self.eat("PRIVILEGES")
        access = _SYNONYMS.get(word) or self._known(word, at)
        excluded = self.eat("EXCEPT")
        if access is Access.SELECT and (excluded or (self.here is not None and self.here.text == "(")):
            return access, Columns(names=self.name_list(), excluded=excluded)
        return access, None

    def _known(self, word: str, at: object) -> Access:
        try:
            return access_of(word)
        except InvalidGrant as unknown:
            self.refuse(unknown.message, at)  # type: ignore[arg-type]

    def _resource(self) -> tuple[ResourceType, tuple[str, ...]]:
        if self.eat("CATALOG"):
            return ResourceType.CATALOG, ()
        if self.eat("ALL"):
            self.eat("TABLES")
            self.need("IN")
            if self.eat("CATALOG"):
                return ResourceType.CATALOG_ALL, ()
            self.need("DATABASE")
            return ResourceType.DATABASE_ALL, self.names("the database's name")
        for type_ in (ResourceType.DATABASE, ResourceType.VIEW, ResourceType.FUNCTION):
            if self.word() == type_ and self.word(1) not in ("TO", "FROM"):
                self._advance()
                return type_, self.names(f"the {type_.lower()}'s name")
        if self.word() == "TABLE" and self.word(1) not in ("TO", "FROM"):
            self._advance()
        return ResourceType.TABLE, self.names("the table's name")

    def _principals(self) -> tuple[str, ...]:
        principals = [self._principal()]
        while self.eat(","):
            principals.append(self._principal())
        return tuple(dict.fromkeys(principals))

    def _principal(self) -> str:
        following = self._tokens[self._index + 1].text.upper() if self._index + 1 < len(self._tokens) else ";"
        if self.word() in ("ROLE", "USER") and following not in (",", ";", "TO", "FROM", "UNTIL", "USING"):
            self._advance()
        return self.name("the name of a user or role")

    def _instant(self) -> dt.datetime:
        at = self.here
        self.eat("TIMESTAMP")
        text = self.text("a time such as '2030-01-31T00:00:00Z'")
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            self.fail("a time such as '2030-01-31T00:00:00Z'", at)
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)

    # Roles and policies

    def create_role(self) -> exp.Expr:
        """``CREATE ROLE [IF NOT EXISTS] name``, from behind both words."""
        if_not_exists = self.eat("IF", "NOT", "EXISTS")
        name = self._principal()
        self.finish()
        return trees.CreateRole(name=name, if_not_exists=if_not_exists)

    def drop_role(self) -> exp.Expr:
        """``DROP ROLE [IF EXISTS] name``, from behind both words."""
        if_exists = self.eat("IF", "EXISTS")
        name = self._principal()
        self.finish()
        return trees.DropRole(name=name, if_exists=if_exists)

    def create_row_policy(self) -> exp.Expr:
        """``CREATE [ROW] POLICY name ON table [TO principals] USING (condition)``, from behind POLICY."""
        return self._create_policy(masking=False)

    def create_masking_policy(self) -> exp.Expr:
        """``CREATE MASKING POLICY name ON table (column) [TO principals] USING (expression)``, from behind POLICY."""
        return self._create_policy(masking=True)

    def _create_policy(self, *, masking: bool) -> exp.Expr:
        name = self.name("the policy's name")
        self.need("ON")
        self.eat("TABLE")
        table = self.names("the table's name")
        column = None
        if masking:
            self.need("(")
            column = self.name("the masked column")
            self.need(")")
        principals = self._principals() if self.eat("TO") else ()
        self.need("USING")
        start = self.here
        self.need("(")
        rule = self._parse_disjunction()
        if rule is None or start is None:
            self.fail("an expression" if masking else "a condition")
        inside = self.source_from(start)[1:].strip()
        self.need(")")
        self.finish()
        return trees.CreatePolicy(name=name, table=table, column=column, principals=principals, rule=rule, source=inside)

    def drop_policy(self) -> exp.Expr:
        """``DROP [MASKING] POLICY [IF EXISTS] name ON table``, from behind POLICY."""
        if_exists = self.eat("IF", "EXISTS")
        name = self.name("the policy's name")
        self.need("ON")
        self.eat("TABLE")
        table = self.names("the table's name")
        self.finish()
        return trees.DropPolicy(name=name, table=table, if_exists=if_exists)

    def show_grants(self) -> exp.Expr:
        """``SHOW GRANTS [ON resource | FOR principal]``, from behind both words."""
        if self.eat("ON"):
            what, name = self._resource()
            self.finish()
            return trees.ShowGrants(what=what, name=name)
        principal = self._principal() if self.eat("FOR") or self.eat("TO") else None
        self.finish()
        return trees.ShowGrants(principal=principal)

    # Quotas

    def set_quota(self) -> exp.Expr:
        """``SET QUOTA name = value FOR USER | ROLE principal``, from behind both words."""
        name = self.key_or_value("a quota's name, such as statements.running")
        self.need("=")
        value = self.key_or_value("the quota's value")
        while self.here is not None and self.word() not in ("FOR", ";"):  # 10 GB
            value += f" {self.key_or_value('FOR USER or FOR ROLE')}"
        holder, principal = self._holder()
        self.finish()
        return trees.SetQuota(name=name, value=value, holder=holder, principal=principal)

    def reset_quota(self) -> exp.Expr:
        """``RESET QUOTA name FOR USER | ROLE principal``, from behind both words."""
        name = self.key_or_value("a quota's name, such as statements.running")
        holder, principal = self._holder()
        self.finish()
        return trees.ResetQuota(name=name, holder=holder, principal=principal)

    def show_quotas(self) -> exp.Expr:
        """``SHOW QUOTAS [FOR USER | ROLE principal]``, from behind both words."""
        holder, principal = self._holder() if self.word() == "FOR" else (None, None)
        self.finish()
        return trees.ShowQuotas(holder=holder, principal=principal)

    def _holder(self) -> tuple[Holder, str]:
        self.need("FOR")
        for holder in Holder:
            if self.eat(holder.value):
                return holder, self.name(f"the {holder.value.lower()}'s name")
        return self.fail("USER or ROLE, and a name")

    def show_roles(self) -> exp.Expr:
        """``SHOW ROLES``, from behind both words."""
        self.finish()
        return trees.ShowRoles()

    def show_policies(self) -> exp.Expr:
        """``SHOW POLICIES ON table``, from behind both words."""
        self.need("ON")
        self.eat("TABLE")
        table = self.names("the table's name")
        self.finish()
        return trees.ShowPolicies(table=table)


def resource_of(what: ResourceType, parts: tuple[str, ...], database: str) -> Resource:
    """The resource a statement names; an unqualified table, view or function is the current database's."""
    if what is ResourceType.CATALOG:
        return CATALOG
    if what is ResourceType.CATALOG_ALL:
        return EVERYTHING
    if what in (ResourceType.DATABASE, ResourceType.DATABASE_ALL):
        return Resource(type=what, database=parts[-1])
    return Resource(type=what, database=parts[-2] if len(parts) > 1 else database, name=parts[-1])
