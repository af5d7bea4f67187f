-- upsert
INSERT INTO `Shop`.`order` (`k`, `k2`, `Group`, `od``d %`) VALUES (1, 5, 'it''s \ %s', x'00ff'), (-2, 0, NULL, NULL) ON DUPLICATE KEY UPDATE `k` = IF(IF(`k` = VALUES(`k`) AND `k2` = VALUES(`k2`), 1, ~0 + 1), `k`, `k`), `Group` = VALUES(`Group`), `od``d %` = VALUES(`od``d %`);

-- upsert of key columns only
INSERT INTO `Shop`.`order` (`k`) VALUES ('a') ON DUPLICATE KEY UPDATE `k` = IF(IF(`k` = VALUES(`k`), 1, ~0 + 1), `k`, `k`);

-- stage
CREATE TEMPORARY TABLE `Shop`.`cdcbus_stage` (`cdcbus_stage_row` BIGINT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB AS SELECT `k2`, `k`, `Group` FROM `Shop`.`order` WHERE FALSE;

-- into the stage
INSERT INTO `Shop`.`cdcbus_stage` (`k2`, `k`, `Group`) VALUES (1, 2, 'a');

-- update
UPDATE `Shop`.`cdcbus_stage` AS s STRAIGHT_JOIN `Shop`.`order` AS t ON t.`k` = s.`k` AND t.`k2` = s.`k2` SET t.`Group` = s.`Group`;

-- update of key columns only
UPDATE `Shop`.`cdcbus_stage` AS s STRAIGHT_JOIN `Shop`.`order` AS t ON t.`k` = s.`k` SET t.`k` = s.`k`;

-- insert what is missing
INSERT INTO `Shop`.`order` (`k2`, `k`, `Group`) SELECT s.`k2`, s.`k`, s.`Group` FROM `Shop`.`cdcbus_stage` AS s LEFT JOIN `Shop`.`order` AS t ON t.`k` = s.`k` AND t.`k2` = s.`k2` WHERE t.`k` IS NULL;

-- delete
DELETE FROM `Shop`.`order` WHERE (`k` = 1 AND `k2` = 5) OR (`k` = -2 AND `k2` = 0);

-- delete of one key
DELETE FROM `Shop`.`order` WHERE `k` IN ('a');

-- mark invalid labels
/*M! SET STATEMENT sql_mode = 'NO_BACKSLASH_ESCAPES' FOR */ UPDATE /*+ SET_VAR(sql_mode = 'NO_BACKSLASH_ESCAPES') */ `Shop`.`order` SET `e` = 0, `at` = `at`, `since` = `since` WHERE (`k` = 1 AND `k2` = 2) OR (`k` = 3 AND `k2` = 4);

-- truncate
DELETE FROM `Shop`.`order`;

-- update of one row
UPDATE `Shop`.`order` SET `Group` = 'a' WHERE `k` = 1 AND `k2` = 5;

-- one of equal rows goes
DELETE FROM `Shop`.`order` WHERE `n` = 1 AND `x` = 'a' AND CAST(CONVERT(`x` USING utf8mb4) AS BINARY) = CAST('a' AS BINARY) AND `f` = CAST(0.1 AS float) AND `j` = CAST('[]' AS json) AND CAST(`g` AS BINARY) = x'00' AND `b` IS NULL LIMIT 1;

-- one of equal rows becomes another
UPDATE `Shop`.`order` SET `k` = 2, `Group` = NULL WHERE `k` = 1 AND `Group` = 'a' AND CAST(CONVERT(`Group` USING utf8mb4) AS BINARY) = CAST('a' AS BINARY) LIMIT 1;

-- widen
ALTER TABLE `Shop`.`order` MODIFY COLUMN `Group` varchar(40) NOT NULL;

-- widen a moment
ALTER TABLE `Shop`.`order` MODIFY COLUMN `Group` timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6) COMMENT 'it''s \ current_timestamp()';

