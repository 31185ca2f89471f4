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
CREATE TABLE public.catalog_function (
    function_id uuid NOT NULL,
    database text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    body jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    owner text,
    created_by text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text
);
CREATE TABLE public.catalog_view (
    view_id uuid NOT NULL,
    database text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    body jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    owner text,
    created_by text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text
);
CREATE TABLE public.dropped_directory (
    location text NOT NULL,
    dropped_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.idempotency_key (
    scope text NOT NULL,
    key text NOT NULL,
    body_hash text NOT NULL,
    owner uuid NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    answer jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.sluice_database (
    name text NOT NULL COLLATE pg_catalog."C",
    comment text,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    owner text,
    created_by text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text
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
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    owner text,
    created_by text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text,
    external boolean DEFAULT false NOT NULL
);
CREATE TABLE public.snapshot_pointer (
    table_id uuid NOT NULL,
    branch text NOT NULL COLLATE pg_catalog."C",
    snapshot_id bigint NOT NULL,
    snapshot_uuid text NOT NULL,
    record_count bigint DEFAULT '0'::bigint NOT NULL,
    file_size bigint DEFAULT '0'::bigint NOT NULL,
    file_count bigint DEFAULT '0'::bigint NOT NULL,
    last_file_millis bigint DEFAULT '0'::bigint NOT NULL,
    counted boolean DEFAULT false NOT NULL,
    listed boolean DEFAULT false NOT NULL
);
CREATE TABLE public.stale_file (
    table_id uuid NOT NULL,
    path text NOT NULL,
    mark jsonb NOT NULL
);
CREATE TABLE public.table_branch (
    table_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    schema_id bigint NOT NULL,
    published_schema_id bigint DEFAULT '-1'::bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.table_partition (
    table_id uuid NOT NULL,
    branch text DEFAULT 'main'::text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    spec jsonb NOT NULL,
    record_count bigint NOT NULL,
    file_size bigint NOT NULL,
    file_count bigint NOT NULL,
    last_file_millis bigint NOT NULL,
    total_buckets integer NOT NULL,
    explicit boolean DEFAULT false NOT NULL,
    done boolean DEFAULT false NOT NULL,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text
);
CREATE TABLE public.table_schema (
    table_id uuid NOT NULL,
    schema_id bigint NOT NULL,
    body jsonb NOT NULL,
    branch text DEFAULT 'main'::text NOT NULL COLLATE pg_catalog."C"
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
    snapshot jsonb NOT NULL,
    branch text DEFAULT 'main'::text NOT NULL COLLATE pg_catalog."C",
    created_millis bigint,
    retained text,
    published boolean DEFAULT true NOT NULL
);
INSERT INTO public.alembic_version VALUES ('0004');
INSERT INTO public.idempotency_key VALUES ('append:', 'old', 'h', '63a4bbab-bb33-44de-8738-5551cbf5d53b', 'infinity', '{"rows": 2, "snapshotId": 1}', '9999-01-01 00:00:00+00');
INSERT INTO public.sluice_database VALUES ('default', NULL, '{}', '2026-11-22 19:46:49.857569+00', NULL, NULL, '2026-11-22 19:46:49.857569+00', NULL);
INSERT INTO public.sluice_table VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'default', 't', '/@WAREHOUSE@/default.db/t', 0, 0, NULL, NULL, '2026-11-22 19:46:50.550189+00', 'anonymous', 'anonymous', '2026-11-22 19:46:50.550189+00', 'anonymous', false);
INSERT INTO public.snapshot_pointer VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'main', 2, '76d92d33-5b88-42ba-8882-307629a6a351', 3, 1031, 2, 1795376812648, true, true);
INSERT INTO public.table_schema VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 0, '{"id": 0, "fields": [{"id": 0, "name": "id", "type": "BIGINT"}, {"id": 1, "name": "word", "type": "STRING"}], "options": {"bucket": "1", "bucket-key": "id"}, "version": 3, "timeMillis": 1795376810534, "primaryKeys": [], "partitionKeys": [], "highestFieldId": 1}', 'main');
INSERT INTO public.table_snapshot VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'main', 1, 'e1f09ed9-4654-413d-96fb-edea5adfb7e2', '{"id": 1, "uuid": "e1f09ed9-4654-413d-96fb-edea5adfb7e2", "version": 3, "schemaId": 0, "nextRowId": 0, "commitKind": "APPEND", "commitUser": "u", "timeMillis": 1795376812600, "baseManifestList": "manifest-list-6bf691a0-fe0c-4cdf-a1d5-5b3d7708831b-0", "commitIdentifier": 9223372036854775807, "deltaRecordCount": 2, "totalRecordCount": 2, "deltaManifestList": "manifest-list-b71aa903-48eb-4738-b176-17fbe72a24bf-0", "baseManifestListSize": 1122, "deltaManifestListSize": 1233}', true);
INSERT INTO public.table_snapshot VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'main', 2, '76d92d33-5b88-42ba-8882-307629a6a351', '{"id": 2, "uuid": "76d92d33-5b88-42ba-8882-307629a6a351", "version": 3, "schemaId": 0, "nextRowId": 0, "commitKind": "APPEND", "commitUser": "u", "timeMillis": 1795376812648, "baseManifestList": "manifest-list-ec886e25-d9e1-45c8-9457-37c7f6b3abc2-0", "commitIdentifier": 9223372036854775807, "deltaRecordCount": 1, "totalRecordCount": 3, "deltaManifestList": "manifest-list-04e4c8bd-1562-486f-9bcc-2e10a31a28dd-0", "baseManifestListSize": 1233, "deltaManifestListSize": 1233}', true);
INSERT INTO public.table_tag VALUES ('471cd787-dad7-444b-913e-3996aea5a297', 'kept', '{"id": 1, "uuid": "e1f09ed9-4654-413d-96fb-edea5adfb7e2", "version": 3, "schemaId": 0, "nextRowId": 0, "commitKind": "APPEND", "commitUser": "u", "timeMillis": 1795376812600, "baseManifestList": "manifest-list-6bf691a0-fe0c-4cdf-a1d5-5b3d7708831b-0", "commitIdentifier": 9223372036854775807, "deltaRecordCount": 2, "totalRecordCount": 2, "deltaManifestList": "manifest-list-b71aa903-48eb-4738-b176-17fbe72a24bf-0", "baseManifestListSize": 1122, "deltaManifestListSize": 1233}', 'main', 1795376812617, NULL, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.catalog_function
    ADD CONSTRAINT catalog_function_name_key UNIQUE (database, name);
ALTER TABLE ONLY public.catalog_function
    ADD CONSTRAINT catalog_function_pkey PRIMARY KEY (function_id);
ALTER TABLE ONLY public.catalog_view
    ADD CONSTRAINT catalog_view_name_key UNIQUE (database, name);
ALTER TABLE ONLY public.catalog_view
    ADD CONSTRAINT catalog_view_pkey PRIMARY KEY (view_id);
ALTER TABLE ONLY public.dropped_directory
    ADD CONSTRAINT dropped_directory_pkey PRIMARY KEY (location);
ALTER TABLE ONLY public.idempotency_key
    ADD CONSTRAINT idempotency_key_pkey PRIMARY KEY (scope, key);
ALTER TABLE ONLY public.sluice_database
    ADD CONSTRAINT sluice_database_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.sluice_table
    ADD CONSTRAINT sluice_table_name_key UNIQUE (database, name);
ALTER TABLE ONLY public.sluice_table
    ADD CONSTRAINT sluice_table_pkey PRIMARY KEY (table_id);
ALTER TABLE ONLY public.snapshot_pointer
    ADD CONSTRAINT snapshot_pointer_pkey PRIMARY KEY (table_id, branch);
ALTER TABLE ONLY public.stale_file
    ADD CONSTRAINT stale_file_pkey PRIMARY KEY (table_id, path);
ALTER TABLE ONLY public.table_branch
    ADD CONSTRAINT table_branch_pkey PRIMARY KEY (table_id, name);
ALTER TABLE ONLY public.table_partition
    ADD CONSTRAINT table_partition_pkey PRIMARY KEY (table_id, branch, name);
ALTER TABLE ONLY public.table_schema
    ADD CONSTRAINT table_schema_pkey PRIMARY KEY (table_id, branch, schema_id);
ALTER TABLE ONLY public.table_snapshot
    ADD CONSTRAINT table_snapshot_pkey PRIMARY KEY (table_id, branch, snapshot_id);
ALTER TABLE ONLY public.table_snapshot
    ADD CONSTRAINT table_snapshot_uuid_key UNIQUE (table_id, branch, snapshot_uuid);
ALTER TABLE ONLY public.table_tag
    ADD CONSTRAINT table_tag_pkey PRIMARY KEY (table_id, branch, name);
CREATE INDEX idempotency_key_age ON public.idempotency_key USING btree (created_at);
CREATE INDEX table_snapshot_commit ON public.table_snapshot USING btree (table_id, branch, ((body ->> 'commitUser'::text)));
CREATE INDEX table_snapshot_unpublished ON public.table_snapshot USING btree (table_id) WHERE (NOT published);
ALTER TABLE ONLY public.catalog_function
    ADD CONSTRAINT catalog_function_database_fkey FOREIGN KEY (database) REFERENCES public.sluice_database(name);
ALTER TABLE ONLY public.catalog_view
    ADD CONSTRAINT catalog_view_database_fkey FOREIGN KEY (database) REFERENCES public.sluice_database(name);
ALTER TABLE ONLY public.sluice_table
    ADD CONSTRAINT sluice_table_database_fkey FOREIGN KEY (database) REFERENCES public.sluice_database(name);
ALTER TABLE ONLY public.snapshot_pointer
    ADD CONSTRAINT snapshot_pointer_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.stale_file
    ADD CONSTRAINT stale_file_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_branch
    ADD CONSTRAINT table_branch_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_partition
    ADD CONSTRAINT table_partition_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_schema
    ADD CONSTRAINT table_schema_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_snapshot
    ADD CONSTRAINT table_snapshot_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.table_tag
    ADD CONSTRAINT table_tag_table_fkey FOREIGN KEY (table_id) REFERENCES public.sluice_table(table_id) ON DELETE CASCADE;
