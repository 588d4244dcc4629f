//! Joins the constant arguments of an operator into one, as MongoDB does when it optimises. The order of arguments shows in
//! results: which of two equal values `$max` keeps, the last bits of a `$sum`, the type of a product.

use super::node::{Eval, Expr};

#[derive(Clone, Copy, PartialEq)]
enum Association {
    /// Constants before the first other argument are joined.
    Left,
    /// Neighbouring constants are joined, and arguments of a nested call are taken into this one.
    Full,
    /// As `Full`, and all constants come last.
    Commutative,
}

/// Sorted by name.
const ASSOCIATIONS: &[(&str, Association)] = &[
    ("$add", Association::Left),
    ("$bitAnd", Association::Commutative),
    ("$bitOr", Association::Commutative),
    ("$bitXor", Association::Commutative),
    ("$concat", Association::Full),
    ("$concatArrays", Association::Full),
    ("$max", Association::Commutative),
    ("$min", Association::Commutative),
    ("$multiply", Association::Left),
    ("$setIntersection", Association::Commutative),
    ("$setUnion", Association::Commutative),
    ("$sum", Association::Commutative),
];

/// Returns the arguments as they are evaluated.
pub fn join(name: &'static str, args: Vec<Expr>, eval: Eval) -> Vec<Expr> {
    let found = ASSOCIATIONS.binary_search_by_key(&name, |row| row.0);
    let Some((_, how)) = found.ok().and_then(|at| ASSOCIATIONS.get(at)) else {
        return args;
    };
    // A single argument may be an array that stands for its elements.
    if args.len() < 2 || args.iter().all(|arg| matches!(arg, Expr::Const(_))) {
        return args;
    }
    let mut joined = Vec::new();
    let mut constants = Vec::new();
    let join_constants = |constants: &mut Vec<Expr>, joined: &mut Vec<Expr>| {
        match constants.len() {
            0 | 1 => joined.append(constants),
            _ => joined.push(Expr::call(name, std::mem::take(constants), eval)),
        };
    };
    let mut rest = args.into_iter();
    while let Some(arg) = rest.next() {
        match arg {
            Expr::Const(_) => constants.push(arg),
            // Its own constants are joined already.
            Expr::Call(nested)
                if nested.name == name && nested.args.len() > 1 && *how != Association::Left =>
            {
                for arg in &nested.args {
                    match arg {
                        Expr::Const(_) => constants.push(arg.clone()),
                        other => {
                            if *how == Association::Full {
                                join_constants(&mut constants, &mut joined);
                            }
                            joined.push(other.clone());
                        }
                    }
                }
            }
            other => {
                if *how != Association::Commutative {
                    join_constants(&mut constants, &mut joined);
                }
                joined.push(other);
                if *how == Association::Left {
                    joined.extend(rest.by_ref());
                }
            }
        }
    }
    join_constants(&mut constants, &mut joined);
    joined
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use bson::{Bson, bson, doc};

    #[test]
    fn sorted() {
        assert!(ASSOCIATIONS.is_sorted_by(|a, b| a.0 < b.0));
    }

    /// The answers of mongod 6.0.5, except for the type of the last sum, where 8.2 joins only leading constants.
    #[test]
    fn constants_come_last() {
        let long = Bson::Int64(1);
        check::values_in(
            &doc! {"x": long.clone(), "big": 1e16, "i": -1},
            &[
                (bson!({"$max": [1, "$x"]}), long.clone()),
                (bson!({"$min": [1, "$x"]}), long.clone()),
                (bson!({"$max": [1, {"$max": ["$x", 0]}]}), long),
                (bson!({"$sum": [3.0, "$big", -1e16]}), bson!(4.0)),
                (bson!({"$concat": ["a", "b", "c"]}), bson!("abc")),
                (
                    bson!({"$add": [i32::MAX, 1, "$i"]}),
                    Bson::Int64(2_147_483_647),
                ),
            ],
        );
    }
}
