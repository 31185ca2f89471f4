"""By how much the value of each function may be larger than its arguments. One that stands nowhere is taken to make eight times as much.

So a function nobody has looked at is bounded, too: it is guarded where what it is given could make its value too large.
"""

from __future__ import annotations

_FIXED_NAMES = """
    abs acos acosh add_months approx_count_distinct ascii asin asinh assert_true atan atan2 atanh avg between bigint bit_and bit_count
    bit_get bit_length bit_or bit_xor bitmap_bit_position bitmap_bucket_number bitmap_count bool_and bool_or boolean bround cardinality cbrt
    ceil ceiling char char_length character_length chr contains convert_timezone corr cos cosh cot count count_if covar_pop covar_samp crc32
    csc cume_dist curdate current_date current_time current_timestamp current_timezone date date_add date_diff date_from_unix_date date_part
    date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal degrees dense_rank div double e
    endswith equal_null every exists exp expm1 extract factorial find_in_set float floor forall from_utc_timestamp getbit
    grouping grouping_id hash hll_sketch_estimate hour hypot in instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull
    isnull jaro_winkler_similarity json_array_length kurtosis last_day len length levenshtein like ilike ln localtime localtimestamp locate
    log log10 log1p log2 luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
    make_ym_interval md5 mean median minute mod monotonically_increasing_id month monthname months_between next_day not now ntile
    octet_length percent_rank percentile_cont percentile_disc pi pmod position positive pow power quarter radians raise_error
    rand randn random rank regexp regexp_count regexp_instr regexp_like regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy rint rlike round row_number sec second sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin
    sinh size skewness smallint some soundex spark_partition_id sqrt startswith std stddev stddev_pop stddev_samp sum tan tanh
    theta_sketch_estimate time time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
    time_to_seconds time_trunc timestamp timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds timestampadd timestampdiff
    tinyint to_date to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_add
    try_avg try_divide try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_subtract
    try_sum try_to_date try_to_number try_to_time try_to_timestamp typeof unix_date unix_micros unix_millis unix_nanos unix_seconds
    unix_timestamp uniform uuid var_pop var_samp variance vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
    weekday weekofyear width_bucket window_time xxhash64 year array_contains array_position array_size arrays_overlap map_contains_key
    tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_theta_double tuple_sketch_theta_integer
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
"""
_KEEPING_NAMES = """
    any any_value approx_percentile approx_top_k array_agg array_compact array_distinct array_except array_intersect
    array_max array_min array_remove array_sort bitmap_and_agg bitmap_construct_agg bitmap_or_agg btrim cast coalesce collate collation
    collations collect_list collect_set collect_union count_min_sketch element_at elt explode explode_outer
    filter first first_value get get_json_object greatest histogram_numeric if ifnull initcap inline inline_outer json_tuple lag
    last last_value lcase lead least left listagg lower ltrim map_filter map_keys map_values mask max max_by min min_by
    mode negative nth_value nullif nullifzero nvl nvl2 parse_url percentile percentile_approx posexplode posexplode_outer
    range regexp_extract regexp_substr reverse right rtrim session_window shuffle slice sort_array split_part sql_keywords
    stack string string_agg substr substring substring_index trim try_element_at try_parse_url try_url_decode try_validate_utf8
    try_variant_get ucase unbase64 unhex upper url_decode validate_utf8 variant_explode variant_explode_outer variant_get vector_avg
    vector_normalize vector_sum when window zeroifnull case hll_sketch_agg hll_union hll_union_agg theta_intersection_agg theta_sketch_agg
    theta_union_agg tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
    tuple_union_agg_double tuple_union_agg_integer kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float schema_of_variant_agg approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate
    schema_of_csv schema_of_json schema_of_variant schema_of_xml nanvl counter_diff array struct named_struct map
"""
_TIMES_NAMES = {
    1: """array_append array_insert array_prepend array_union concat concat_ws flatten overlay map_concat map_entries map_from_arrays
          map_from_entries lpad rpad space format_string printf replace translate regexp_replace array_join sequence repeat array_repeat
          randstr format_number arrays_zip zip_with map_zip_with transform transform_keys transform_values aggregate reduce""",
    2: "hex base64 quote to_base32 from_base32",
    3: "url_encode",
    4: "encode decode conv parse_json try_parse_json to_char to_varchar date_format from_unixtime",
    16: "to_json to_csv to_xml from_json from_csv from_xml json_object_keys",
    17: "split regexp_extract_all",
    33: "sentences str_to_map",
}
FIXED = frozenset(_FIXED_NAMES.split())
"""Their values are numbers, times or short texts, whatever they are given."""
KEEPING = frozenset(_KEEPING_NAMES.split())
"""Their values are at most as large as the largest of their arguments. Aggregates, windows and generators stand here, too: no guard may
stand around them."""
TIMES = {name: factor for factor, names in _TIMES_NAMES.items() for name in names.split()}
"""Their values are at most so many times their arguments together; an element of an array takes 16 bytes."""
UNKNOWN = 8
_ROWS_NAMES = """
    any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and bit_or bit_xor bool_and bool_or collect_list
    collect_set count count_if count_min_sketch every first first_value histogram_numeric last last_value listagg max max_by mean median min
    min_by mode percentile percentile_approx some std stddev string_agg sum try_avg try_sum uuid rand randn random uniform randstr shuffle
    monotonically_increasing_id spark_partition_id raise_error
"""
ROWS = frozenset(_ROWS_NAMES.split())
"""Spark does not compute them while it plans, whatever they are given."""
