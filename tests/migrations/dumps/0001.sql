SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.sluice_database (
    name text NOT NULL COLLATE pg_catalog."C",
    comment text,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.sluice_table (
    table_id uuid NOT NULL,
    database text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    location text NOT NULL,
    schema_id bigint NOT NULL,
    published_schema_id bigint DEFAULT '-1'::bigint NOT NULL,
    moving_from text,
    diverged_at text,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.snapshot_pointer (
    table_id uuid NOT NULL,
    branch text NOT NULL COLLATE pg_catalog."C",
    snapshot_id bigint NOT NULL,
    snapshot_uuid text NOT NULL
);
CREATE TABLE public.table_schema (
    table_id uuid NOT NULL,
    schema_id bigint NOT NULL,
    body jsonb NOT NULL
);
CREATE TABLE public.table_snapshot (
    table_id uuid NOT NULL,
    branch text NOT NULL COLLATE pg_catalog."C",
    snapshot_id bigint NOT NULL,
    snapshot_uuid text NOT NULL,
    body jsonb NOT NULL,
    published boolean DEFAULT false NOT NULL
);
CREATE TABLE public.table_tag (
    table_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    snapshot jsonb NOT NULL
);
INSERT INTO public.alembic_version VALUES ('0001');
INSERT INTO public.sluice_database VALUES ('default', NULL, '{}', '2026-11-22 19:46:49.857569+00');
INSERT INTO public.sluice_table VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'default', 't', '/@WAREHOUSE@/default.db/t', 0, 0, NULL, NULL, '2026-11-22 19:46:50.550189+00');
INSERT INTO public.snapshot_pointer VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'main', 2, '76d92d33-5b88-42ba-8882-307629a6a351');
INSERT INTO public.table_schema VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 0, '{"id": 0, "fields": [{"id": 0, "name": "id", "type": "BIGINT"}, {"id": 1, "name": "word", "type": "STRING"}], "options": {"bucket": "1", "bucket-key": "id"}, "version": 3, "timeMillis": 1795376810534, "primaryKeys": [], "partitionKeys": [], "highestFieldId": 1}');
INSERT INTO public.table_snapshot VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'main', 1, 'e1f09ed9-4654-413d-96fb-edea5adfb7e2', '{"id": 1, "uuid": "e1f09ed9-4654-413d-96fb-edea5adfb7e2", "version": 3, "schemaId": 0, "nextRowId": 0, "commitKind": "APPEND", "commitUser": "u", "timeMillis": 1795376812600, "baseManifestList": "manifest-list-6bf691a0-fe0c-4cdf-a1d5-5b3d7708831b-0", "commitIdentifier": 9223372036854775807, "deltaRecordCount": 2, "totalRecordCount": 2, "deltaManifestList": "manifest-list-b71aa903-48eb-4738-b176-17fbe72a24bf-0", "baseManifestListSize": 1122, "deltaManifestListSize": 1233}', true);
INSERT INTO public.table_snapshot VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'main', 2, '76d92d33-5b88-42ba-8882-307629a6a351', '{"id": 2, "uuid": "76d92d33-5b88-42ba-8882-307629a6a351", "version": 3, "schemaId": 0, "nextRowId": 0, "commitKind": "APPEND", "commitUser": "u", "timeMillis": 1795376812648, "baseManifestList": "manifest-list-ec886e25-d9e1-45c8-9457-37c7f6b3abc2-0", "commitIdentifier": 9223372036854775807, "deltaRecordCount": 1, "totalRecordCount": 3, "deltaManifestList": "manifest-list-04e4c8bd-1562-486f-9bcc-2e10a31a28dd-0", "baseManifestListSize": 1233, "deltaManifestListSize": 1233}', true);
INSERT INTO public.table_tag VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'kept', '{"id": 1, "uuid": "e1f09ed9-4654-413d-96fb-edea5adfb7e2", "version": 3, "schemaId": 0, "nextRowId": 0, "commitKind": "APPEND", "commitUser": "u", "timeMillis": 1795376812600, "baseManifestList": "manifest-list-6bf691a0-fe0c-4cdf-a1d5-5b3d7708831b-0", "commitIdentifier": 9223372036854775807, "deltaRecordCount": 2, "totalRecordCount": 2, "deltaManifestList": "manifest-list-b71aa903-48eb-4738-b176-17fbe72a24bf-0", "baseManifestListSize": 1122, "deltaManifestListSize": 1233}');
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.sluice_database
    ADD CONSTRAINT sluice_database_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.sluice_table
    ADD CONSTRAINT sluice_table_name_key UNIQUE (database, name);
ALTER TABLE ONLY public.sluice_table
    ADD CONSTRAINT sluice_table_pkey PRIMARY KEY (table_id);
ALTER TABLE ONLY public.snapshot_pointer
    ADD CONSTRAINT snapshot_pointer_pkey PRIMARY KEY (table_id, branch);
ALTER TABLE ONLY public.table_schema
    ADD CONSTRAINT table_schema_pkey PRIMARY KEY (table_id, schema_id);
ALTER TABLE ONLY public.table_snapshot
    ADD CONSTRAINT table_snapshot_pkey PRIMARY KEY (table_id, branch, snapshot_id);
ALTER TABLE ONLY public.table_snapshot
    ADD CONSTRAINT table_snapshot_uuid_key UNIQUE (table_id, snapshot_uuid);
ALTER TABLE ONLY public.table_tag
    ADD CONSTRAINT table_tag_pkey PRIMARY KEY (table_id, name);
CREATE INDEX table_snapshot_unpublished ON public.table_snapshot USING btree (table_id) WHERE (NOT published);
ALTER TABLE ONLY public.sluice_table
    ADD CONSTRAINT sluice_table_database_fkey FOREIGN KEY (database) REFERENCES public.sluice_database(name);
ALTER TABLE ONLY public.snapshot_pointer
    ADD CONSTRAINT snapshot_pointer_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_schema
    ADD CONSTRAINT table_schema_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_snapshot
    ADD CONSTRAINT table_snapshot_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_tag
    ADD CONSTRAINT table_tag_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
