-- merge
MERGE INTO "Shop"."order" t USING (SELECT :1 AS "k", :2 AS "k2", :3 AS "Group", :4 AS "long" FROM dual) s ON (t."k" = s."k" AND t."k2" = s."k2") WHEN MATCHED THEN UPDATE SET t."Group" = s."Group", t."long" = s."long" WHEN NOT MATCHED THEN INSERT ("k", "k2", "Group", "long") VALUES (s."k", s."k2", s."Group", s."long");

-- merge of key columns only
MERGE INTO "Shop"."order" t USING (SELECT :1 AS "k" FROM dual) s ON (t."k" = s."k") WHEN NOT MATCHED THEN INSERT ("k") VALUES (s."k");

-- update
UPDATE "Shop"."order" SET "Group" = :1 WHERE "k" = :2 AND "k2" = :3;

-- update of key columns only
UPDATE "Shop"."order" SET "k" = :1 WHERE "k" = :2;

-- delete
DELETE FROM "Shop"."order" WHERE "k" = :1 AND "k2" = :2;

-- truncate
DELETE FROM "Shop"."order";

-- insert
INSERT INTO "Shop"."order" ("Group", "k") VALUES (:1, :2);

-- one of equal rows goes
DELETE FROM "Shop"."order" WHERE "k" = :1 AND "Group" IS NULL AND DBMS_LOB.COMPARE("long", :2) = 0 AND ROWNUM = 1;

-- one of equal rows becomes another
UPDATE "Shop"."order" SET "k" = :1, "Group" = :2, "long" = :3 WHERE "k" = :4 AND "Group" = :5 AND DBMS_LOB.COMPARE("long", :6) = 0 AND ROWNUM = 1;

-- one of rows with folding texts goes
DELETE FROM "Shop"."order" WHERE "t" COLLATE BINARY = :1 AND "n" = :2 AND ROWNUM = 1;

-- widen
ALTER TABLE "Shop"."order" MODIFY ("Group" VARCHAR2(40 CHAR));

