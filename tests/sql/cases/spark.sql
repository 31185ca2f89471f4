-- functions pass through
SELECT date_format(ts, 'yyyy'), to_date('2024-01-01'), a || b, transform(x, y -> y + 1) FROM v
=>
SELECT date_format(ts, 'yyyy'), to_date('2024-01-01'), a || b, TRANSFORM(x, y -> y + 1) FROM v

-- a timestamp cast cuts off digits; its column keeps the name the user wrote
SELECT CAST(a AS TIMESTAMP(3)), CAST(a AS TIMESTAMP(6)), year(CAST(a AS TIMESTAMP(0))) FROM v
=>
SELECT time_bucket(INTERVAL '0.001' SECOND, CAST(a AS TIMESTAMP)) AS `CAST(a AS TIMESTAMP(3))`, CAST(a AS TIMESTAMP), year(time_bucket(INTERVAL '1' SECOND, CAST(a AS TIMESTAMP))) FROM v

-- a timestamp cast inside another cuts, too
SELECT CAST(CAST(a AS TIMESTAMP(0)) + INTERVAL '0.5' SECOND AS TIMESTAMP_LTZ(1)), CAST((SELECT max(CAST(b AS TIMESTAMP(0))) FROM u) AS TIMESTAMP(6)) AS x FROM v
=>
SELECT time_bucket(INTERVAL '0.1' SECOND, CAST(time_bucket(INTERVAL '1' SECOND, CAST(a AS TIMESTAMP)) + INTERVAL '0.5' SECOND AS TIMESTAMP_LTZ)) AS `CAST(CAST(a AS TIMESTAMP(0)) + INTERVAL '0.5' SECOND AS TIMESTAMP_LTZ(1))`, CAST((SELECT MAX(time_bucket(INTERVAL '1' SECOND, CAST(b AS TIMESTAMP))) FROM u) AS TIMESTAMP) AS x FROM v

-- a text cast cuts and fills up
SELECT CAST(a AS VARCHAR(3)), TRY_CAST(a AS CHAR(3)) AS x, upper(CAST(CAST(a AS CHAR) AS VARCHAR)), CAST(a AS ARRAY<VARCHAR(3)>) FROM v
=>
SELECT left(CAST(a AS STRING), 3) AS `a`, rpad(TRY_CAST(a AS STRING), 3, ' ') AS x, upper(CAST(rpad(CAST(a AS STRING), 1, ' ') AS STRING)), transform(CAST(a AS ARRAY<STRING>), __cut0 -> left(__cut0, 3)) AS `a` FROM v

-- a time has its precision
SELECT CAST(a AS TIME(0)), CAST(a AS ARRAY<TIME(3)>), TIME(1) '10:00:00.55', CAST(a AS TIME) FROM v
=>
SELECT CAST(a AS TIME(0)), CAST(a AS ARRAY<TIME(3)>), CAST('10:00:00.55' AS TIME(1)), CAST(a AS TIME) FROM v

-- an interval of several units is one value
SELECT a - INTERVAL 1 DAY 2 HOURS, -INTERVAL '1' DAY -'2' HOURS, d - INTERVAL 1 DAY + 2, INTERVAL '- 1 day', interval - 1 FROM v
=>
SELECT a - INTERVAL '1 DAY 2 HOURS', -INTERVAL '1 DAY -2 HOURS', d - INTERVAL '1' DAY + 2, INTERVAL '- 1 day', interval - 1 FROM v

-- a timestamp that names a zone is an instant
SELECT TIMESTAMP '2024-06-01 00:00:00+02:00', TIMESTAMP '2024-06-01T00:00:00 Europe/Berlin', TIMESTAMP '-2024-06-01 00:00:00'
=>
SELECT CAST('2024-06-01 00:00:00+02:00' AS TIMESTAMP_LTZ), CAST('2024-06-01T00:00:00 Europe/Berlin' AS TIMESTAMP_LTZ), CAST('-2024-06-01 00:00:00' AS TIMESTAMP)

-- types Flink spells differently
SELECT CAST(a AS BYTES), CAST(a AS ROW<x INT>), CAST(a AS TIMESTAMP_LTZ(6)), CAST(a AS STRING) FROM v
=>
SELECT CAST(a AS BINARY), CAST(a AS STRUCT<x: INT>), CAST(a AS TIMESTAMP_LTZ), CAST(a AS STRING) FROM v

-- a time stays a time
SELECT TIME '01:02:03'
=>
SELECT CAST('01:02:03' AS TIME)

-- percentiles are not approximated
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM v
=>
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM v

-- a common table expression
WITH x AS (SELECT 1 AS a) SELECT * FROM x JOIN y USING (a) ORDER BY 1 LIMIT 3
=>
WITH x AS (SELECT 1 AS a) SELECT * FROM x JOIN y USING (a) ORDER BY 1 LIMIT 3

-- set operations
(SELECT 1) UNION ALL (SELECT 2)
=>
(SELECT 1) UNION ALL (SELECT 2)

-- windows
SELECT sum(x) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM v
=>
SELECT SUM(x) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM v

-- lateral views
SELECT z FROM v LATERAL VIEW explode(x) y AS z
=>
SELECT z FROM v LATERAL VIEW explode(x) y AS z

-- arguments stay what they are
SELECT to_char(a, '999'), listagg(a), string_agg(a, ','), instr('abcabc', 'b', 1, 2), max_by(a, b, 3), levenshtein(a, b, 2) FROM v
=>
SELECT to_char(a, '999'), listagg(a), string_agg(a, ','), instr('abcabc', 'b', 1, 2), max_by(a, b, 3), levenshtein(a, b, 2) FROM v

-- functions keep their names
SELECT log10(a), parse_json(a), nvl(a, 0), array_agg(a), var_samp(a), unix_date(a), localtimestamp(), named_struct('a', 1) FROM v
=>
SELECT log10(a), parse_json(a), nvl(a, 0), array_agg(a), var_samp(a), unix_date(a), localtimestamp(), named_struct('a', 1) FROM v

-- units stay in front
SELECT dateadd(DAY, 1, a), datediff(MONTH, a, b), timestampdiff(HOUR, a, b), timestampadd(HOUR, 1, a), date_trunc('DAY', a) FROM v
=>
SELECT dateadd(DAY, 1, a), datediff(MONTH, a, b), timestampdiff(HOUR, a, b), timestampadd(HOUR, 1, a), date_trunc('DAY', a) FROM v

-- the words of the standard's calls
SELECT substring(a FROM 2 FOR 1), position('a' IN b), overlay(a PLACING 'x' FROM 1), trim(LEADING 'x' FROM a), extract(DAY FROM d) FROM v
=>
SELECT SUBSTRING(a, 2, 1), LOCATE('a', b), OVERLAY(a PLACING 'x' FROM 1), TRIM(LEADING 'x' FROM a), EXTRACT(DAY FROM d) FROM v

-- texts keep their backslashes
SELECT 'a\\d', r'\d', 'it''s', 'line\nfeed' FROM v
=>
SELECT 'a\\d', '\\d', 'it\'s', 'line\nfeed' FROM v

-- rows, and times without parentheses
SELECT ROW(1, 'b'), LOCALTIMESTAMP, LOCALTIME, `LOCALTIME`, v.LOCALTIME FROM v
=>
SELECT struct(1, 'b'), LOCALTIMESTAMP(), LOCALTIME(), `LOCALTIME`, v.LOCALTIME FROM v

-- a table function as Flink calls it
SELECT x FROM v, LATERAL TABLE(explode(array(1, 2))) AS t(x), TABLE(range(3)) AS r
=>
SELECT x FROM v CROSS JOIN LATERAL explode(ARRAY(1, 2)) AS t(x) CROSS JOIN range(3) AS r

-- a map as Flink writes it
SELECT MAP['a', 1, 'b', 2]['a'], `map`['a'] FROM v
=>
SELECT map('a', 1, 'b', 2)['a'], `map`['a'] FROM v

-- the standard's limit
SELECT a FROM v ORDER BY a OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY
=>
SELECT a FROM v ORDER BY a LIMIT 3 OFFSET 2

-- the standard's limit of one row, in a subquery
SELECT a FROM (SELECT a FROM v FETCH FIRST ROW ONLY) AS x
=>
SELECT a FROM (SELECT a FROM v LIMIT 1) AS x

-- the standard's limit of a union
SELECT a FROM v UNION ALL SELECT a FROM v FETCH FIRST 3 ROWS ONLY
=>
SELECT a FROM v UNION ALL SELECT a FROM v LIMIT 3
