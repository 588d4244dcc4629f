//! Where the fields of a projected document come from.

use super::tree::{Projection, ProjectionMode, ProjectionNode};
use crate::query::{Expr, PathOrigin};
use crate::value::Path;

impl Projection {
    /// Returns the origin of a path of the projected document.
    pub fn origin(&self, path: &Path) -> PathOrigin {
        let mut tree = &self.root;
        let mut read = 0;
        for (depth, name) in path.parts().enumerate() {
            read += name.len() + usize::from(depth > 0);
            let found = tree.children.find(name.as_bytes());
            let Some((_, node)) = found.and_then(|at| tree.children.at(at)) else {
                return match self.mode {
                    ProjectionMode::Include => PathOrigin::Computed,
                    ProjectionMode::Exclude => PathOrigin::Same,
                    ProjectionMode::Add if depth == 0 => PathOrigin::Same,
                    // A field beside this one is set, which turns scalars on the way into documents.
                    ProjectionMode::Add => PathOrigin::SameIfPresent,
                };
            };
            match node {
                ProjectionNode::Keep if depth == 0 => return PathOrigin::Same,
                ProjectionNode::Keep => return PathOrigin::SameIfPresent,
                ProjectionNode::Within(inner) => tree = inner,
                // Below the root, an array on the way would hold the value once for each element, or not at all.
                ProjectionNode::Compute(Expr::Field(from))
                    if depth == 0 && from.path().len() == 1 =>
                {
                    let (_, rest) = path.as_str().split_at(read);
                    return PathOrigin::Renamed(from.path().as_str().to_owned()).below(rest);
                }
                _ => return PathOrigin::Computed,
            }
        }
        PathOrigin::Computed
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use crate::query::projection::{Projection, ProjectionKind};
    use crate::query::{PathOrigin, Scope};
    use crate::value::{DocBuf, Path};

    #[test]
    fn fields_have_origins() {
        let same = PathOrigin::Same;
        let present = PathOrigin::SameIfPresent;
        let computed = PathOrigin::Computed;
        let renamed = |path: &str| PathOrigin::Renamed(path.into());
        let project = |spec: &Document| {
            Projection::parse(
                DocBuf::from(spec).as_doc(),
                &Scope::new(),
                ProjectionKind::Aggregate,
            )
            .unwrap()
        };
        let set = |spec: &Document| {
            Projection::parse_add_fields(DocBuf::from(spec).as_doc(), &Scope::new()).unwrap()
        };
        let inclusion =
            project(&doc! {"a": 1, "s.x": 1, "r": "$b", "d": "$b.c", "e": {"$add": [1, "$a"]}});
        let exclusion = project(&doc! {"a": 0, "s.x": 0});
        let addition = set(&doc! {"a": 1, "s.x": "$b", "r": "$b"});
        for (projection, path, expected) in [
            (&inclusion, "a", &same),
            (&inclusion, "a.b", &same),
            (&inclusion, "_id", &same),
            (&inclusion, "q", &computed),
            (&inclusion, "s", &computed),
            (&inclusion, "s.x", &present),
            (&inclusion, "s.x.y", &present),
            (&inclusion, "s.y", &computed),
            (&inclusion, "r", &renamed("b")),
            (&inclusion, "r.c", &renamed("b.c")),
            (&inclusion, "d", &computed),
            (&inclusion, "e", &computed),
            (&exclusion, "a", &computed),
            (&exclusion, "a.b", &computed),
            (&exclusion, "b", &same),
            (&exclusion, "s", &computed),
            (&exclusion, "s.x", &computed),
            (&exclusion, "s.y", &same),
            (&addition, "a", &computed),
            (&addition, "b", &same),
            (&addition, "s", &computed),
            (&addition, "s.x", &computed),
            (&addition, "s.y", &present),
            (&addition, "r.c", &renamed("b.c")),
        ] {
            assert_eq!(
                &projection.origin(&Path::parse(path)),
                expected,
                "{projection:?} {path}"
            );
        }
    }
}
