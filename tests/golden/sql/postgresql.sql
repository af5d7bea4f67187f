-- upsert
INSERT INTO "Shop"."order" ("k", "k2", "Group", "tags", "od""d %%") OVERRIDING SYSTEM VALUE SELECT s."k", s."k2", s."Group", s."tags"::integer[], s."od""d %%" FROM unnest(%s::bigint[], %s::"bit"[], %s::character varying[], %s::text[], %s::bytea[]) AS s("k", "k2", "Group", "tags", "od""d %%") ON CONFLICT ("k", "k2") DO UPDATE SET "Group" = EXCLUDED."Group", "tags" = EXCLUDED."tags", "od""d %%" = EXCLUDED."od""d %%";

-- upsert of key columns only
INSERT INTO "Shop"."order" ("k") OVERRIDING SYSTEM VALUE SELECT s."k" FROM unnest(%s::uuid[]) AS s("k") ON CONFLICT ("k") DO NOTHING;

-- copy
COPY "Shop"."order" ("k", "k2", "Group", "tags", "od""d %") FROM STDIN (FORMAT csv);

-- copy and merge
CREATE TEMPORARY TABLE pg_temp.cdcbus_stage ("k" bigint, "k2" "bit", "Group" character varying, "tags" integer[], "od""d %" bytea);
COPY pg_temp.cdcbus_stage ("k", "k2", "Group", "tags", "od""d %") FROM STDIN (FORMAT text, NULL '');
INSERT INTO "Shop"."order" ("k", "k2", "Group", "tags", "od""d %") OVERRIDING SYSTEM VALUE SELECT "k", "k2", "Group", "tags", "od""d %" FROM pg_temp.cdcbus_stage ON CONFLICT ("k", "k2") DO UPDATE SET "Group" = EXCLUDED."Group", "tags" = EXCLUDED."tags", "od""d %" = EXCLUDED."od""d %";
DROP TABLE pg_temp.cdcbus_stage;

-- insert what is missing
INSERT INTO "Shop"."order" ("tags", "k2", "k") OVERRIDING SYSTEM VALUE SELECT s."tags"::integer[], s."k2", s."k" FROM unnest(%s::text[], %s::"bit"[], %s::bigint[]) AS s("tags", "k2", "k") WHERE NOT EXISTS (SELECT FROM "Shop"."order" AS t WHERE t."k" = s."k" AND t."k2" = s."k2");

-- update
UPDATE "Shop"."order" AS t SET "tags" = s."tags"::integer[] FROM unnest(%s::text[], %s::"bit"[], %s::bigint[]) AS s("tags", "k2", "k") WHERE t."k" = s."k" AND t."k2" = s."k2";

-- update of key columns only
UPDATE "Shop"."order" AS t SET "k" = s."k" FROM unnest(%s::uuid[]) AS s("k") WHERE t."k" = s."k";

-- update of what only an insert may set
SELECT count(*) FROM "Shop"."order" AS t JOIN unnest(%s::integer[], %s::integer[]) AS s("k", "n") ON t."k" = s."k";

-- delete
DELETE FROM "Shop"."order" AS t USING unnest(%s::bigint[], %s::"bit"[]) AS s("k", "k2") WHERE t."k" = s."k" AND t."k2" = s."k2";

-- truncate
TRUNCATE TABLE "Shop"."order";

-- insert
INSERT INTO "Shop"."order" ("tags", "k2", "k") OVERRIDING SYSTEM VALUE SELECT s."tags"::integer[], s."k2", s."k" FROM unnest(%s::text[], %s::"bit"[], %s::bigint[]) AS s("tags", "k2", "k");

-- one of equal rows goes
DELETE FROM "Shop"."order" AS t USING (SELECT tableoid AS part, ctid AS place FROM "Shop"."order" WHERE "k" = %s::bigint AND "Group" = %s::character varying AND "tags" IS NULL LIMIT 1 FOR UPDATE) AS one WHERE t.tableoid = one.part AND t.ctid = one.place;

-- one of equal rows becomes another
UPDATE "Shop"."order" AS t SET "k" = %s::bigint, "Group" = %s::character varying, "tags" = %s::integer[] FROM (SELECT tableoid AS part, ctid AS place FROM "Shop"."order" WHERE "k" = %s::bigint AND "Group" = %s::character varying AND "tags" = %s::integer[] LIMIT 1 FOR UPDATE) AS one WHERE t.tableoid = one.part AND t.ctid = one.place;

-- one of rows with folding texts goes
DELETE FROM "Shop"."order" AS t USING (SELECT tableoid AS part, ctid AS place FROM "Shop"."order" WHERE "t" = %s::text AND "t" COLLATE "C" = %s::text AND "c"::text COLLATE "C" = %s AND "i" = %s::integer LIMIT 1 FOR UPDATE) AS one WHERE t.tableoid = one.part AND t.ctid = one.place;

-- widen
ALTER TABLE "Shop"."order" ALTER COLUMN "Group" TYPE varchar(40);

-- widen bits
ALTER TABLE "Shop"."order" ALTER COLUMN "k2" TYPE bit(8) USING lpad(("k2")::text, 8, '0')::bit(8);

-- widen bits that have a default
ALTER TABLE "Shop"."order" ALTER COLUMN "k2" DROP DEFAULT, ALTER COLUMN "k2" TYPE bit(8) USING lpad(("k2")::text, 8, '0')::bit(8), ALTER COLUMN "k2" SET DEFAULT lpad(('101'::"bit")::text, 8, '0')::bit(8);

-- add labels
ALTER TYPE shop."Mood" ADD VALUE IF NOT EXISTS 'it''s %';
ALTER TYPE shop."Mood" ADD VALUE IF NOT EXISTS 'new';

