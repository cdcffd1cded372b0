//! Lists that are built on first access, for results of which many callers need only the answer.

/// Implements access to a type as a list: its method `made` builds the list once, into the field `read`.
macro_rules! lazy_list {
    ($list:ty, $item:ty) => {
        impl std::ops::Deref for $list {
            type Target = [$item];

            fn deref(&self) -> &[$item] {
                self.read.get_or_init(|| self.made())
            }
        }

        impl<'a> IntoIterator for &'a $list {
            type Item = &'a $item;
            type IntoIter = std::slice::Iter<'a, $item>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        impl IntoIterator for $list {
            type Item = $item;
            type IntoIter = std::vec::IntoIter<$item>;

            fn into_iter(mut self) -> Self::IntoIter {
                let read = self.read.take();
                read.unwrap_or_else(|| self.made()).into_iter()
            }
        }

        impl PartialEq for $list {
            fn eq(&self, other: &Self) -> bool {
                **self == **other
            }
        }

        impl std::fmt::Debug for $list {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_list().entries(self).finish()
            }
        }

        impl serde::Serialize for $list {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self)
            }
        }
    };
}

pub(crate) use lazy_list;
