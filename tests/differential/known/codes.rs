//! Errors whose code alone is another in 8.2.

/// The code of 6.0.5, the code of 8.2, and its source.
#[rustfmt::skip]
pub const CODES: &[(i32, i32, &str)] = &[
    (40414, 40414, "8.2: codes of the IDL parser have names (error_codes.yml)"),
    (40415, 40415, "8.2: codes of the IDL parser have names (error_codes.yml)"),
    (5439012, 5166307, "8.2: date expressions share their check of the date (evaluate_date.cpp)"),
    (5166404, 5439013, "8.2: date expressions share their check of the unit (evaluate_date.cpp)"),
    (5439014, 9, "8.2: a time unit that is none is FailedToParse (parseTimeUnit, time_support)"),
    (40400, 5911200, "8.2: $mergeObjects as an accumulator has its own code (gen_accumulator.cpp)"),
    (5787902, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (5787903, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (31109, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (5787908, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (16610, 4848403, "8.2: $mod by zero (vm_arith.cpp)"),
    (17310, 17046, "8.2: $setIsSubset has one code for its first argument (evaluate_array.cpp)"),
    (16994, 40415, "8.2: $out is read by the IDL parser (document_source_out.cpp)"),
    (40533, 40517, "8.2: date expressions share their check of the zone (evaluate_date.cpp)"),
    (40086, 10503900, "8.2: $split has a code of its own (evaluate_regex.cpp)"),
    (51746, 10503904, "8.2: $replaceOne and $replaceAll have codes of their own (evaluate_regex.cpp)"),
    (51745, 10503901, "8.2: $replaceOne and $replaceAll have codes of their own (evaluate_regex.cpp)"),
    (51744, 10503902, "8.2: $replaceOne and $replaceAll have codes of their own (evaluate_regex.cpp)"),
    (40096, 9711600, "8.2: $indexOfArray has codes of its own (evaluate_array.cpp)"),
    (40097, 9711601, "8.2: $indexOfArray has codes of its own (evaluate_array.cpp)"),
    (16554, 14, "8.2: $add of what is no number is TypeMismatch (documentdb/functional-tests)"),
    (2, 4848401, "8.2: $divide by zero in a plan of the slot-based engine (vm_arith.cpp)"),
    (5654602, 3041704, "8.2: the field of $getField may be any expression (evaluate_bson.cpp)"),
    (5654601, 3041704, "8.2: the field of $getField may be any expression (evaluate_bson.cpp)"),
    (51024, 2, "8.2: numbers out of range are BadValue to the IDL parser (idl_parser.cpp)"),
];

/// Codes of the slot-based engine, which are those of a `$group` only where 8.2 hands it to that engine.
pub const BY_SLOTS: [i32; 2] = [4848401, 4848403];
