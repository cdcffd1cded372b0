//! Writes GGUF files, version 3: the format in which llama.cpp reads a model.
//!
//! Not for reading them, and only with what the scripted model needs: tensors of `f32`, of one or two dimensions.

/// The alignment of a tensor's values, in bytes. It is the format's default.
const ALIGNMENT: usize = 32;

/// A model file that is being built.
#[derive(Debug, Default)]
pub(super) struct Gguf {
    metadata: Vec<(&'static str, Value)>,
    tensors: Vec<Tensor>,
}

/// A value of the metadata.
#[derive(Debug)]
pub(super) enum Value {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    I32s(Vec<i32>),
    Texts(Vec<String>),
}

#[derive(Debug)]
struct Tensor {
    name: &'static str,
    /// Innermost first.
    dimensions: Vec<usize>,
    values: Vec<f32>,
}

impl Gguf {
    /// Adds an entry of the metadata.
    pub(super) fn entry(mut self, key: &'static str, value: Value) -> Self {
        self.metadata.push((key, value));
        self
    }

    /// Adds a vector whose values are all the same.
    pub(super) fn vector(mut self, name: &'static str, length: usize, value: f32) -> Self {
        self.tensors.push(Tensor {
            name,
            dimensions: vec![length],
            values: vec![value; length],
        });
        self
    }

    /// Adds a matrix that maps `inputs` values to `outputs` values. `weight` receives the output index, then the input
    /// index.
    pub(super) fn matrix(
        mut self,
        name: &'static str,
        outputs: usize,
        inputs: usize,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        let weight = &weight;
        self.tensors.push(Tensor {
            name,
            dimensions: vec![inputs, outputs],
            values: (0..outputs)
                .flat_map(|output| (0..inputs).map(move |input| weight(output, input)))
                .collect(),
        });
        self
    }

    /// Returns the bytes of the file.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut file = Vec::from(*b"GGUF");
        file.extend(3_u32.to_le_bytes());
        put_count(&mut file, self.tensors.len());
        put_count(&mut file, self.metadata.len());
        for (key, value) in &self.metadata {
            put_text(&mut file, key);
            file.extend(value.kind().to_le_bytes());
            value.put(&mut file);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            tensor.put_description(&mut file, offset);
            offset = (offset + 4 * tensor.values.len()).next_multiple_of(ALIGNMENT);
        }
        for tensor in &self.tensors {
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
            file.extend(tensor.values.iter().copied().flat_map(f32::to_le_bytes));
        }
        file
    }
}

impl Value {
    /// The format's number for the type.
    fn kind(&self) -> u32 {
        match self {
            Self::U32(_) => 4,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::Text(_) => 8,
            Self::I32s(_) | Self::Texts(_) => 9,
        }
    }

    fn put(&self, file: &mut Vec<u8>) {
        match self {
            Self::U32(number) => file.extend(number.to_le_bytes()),
            Self::F32(number) => file.extend(number.to_le_bytes()),
            Self::Bool(truth) => file.push(u8::from(*truth)),
            Self::Text(text) => put_text(file, text),
            Self::I32s(numbers) => {
                file.extend(5_u32.to_le_bytes());
                put_count(file, numbers.len());
                file.extend(numbers.iter().copied().flat_map(i32::to_le_bytes));
            }
            Self::Texts(texts) => {
                file.extend(8_u32.to_le_bytes());
                put_count(file, texts.len());
                for text in texts {
                    put_text(file, text);
                }
            }
        }
    }
}

impl Tensor {
    /// `offset` is relative to the first tensor's values.
    fn put_description(&self, file: &mut Vec<u8>, offset: usize) {
        /// The format's number for `f32`.
        const F32: u32 = 0;
        put_text(file, self.name);
        file.extend((self.dimensions.len() as u32).to_le_bytes());
        for dimension in &self.dimensions {
            put_count(file, *dimension);
        }
        file.extend(F32.to_le_bytes());
        put_count(file, offset);
    }
}

fn put_text(file: &mut Vec<u8>, text: &str) {
    put_count(file, text.len());
    file.extend(text.as_bytes());
}

fn put_count(file: &mut Vec<u8>, count: usize) {
    file.extend((count as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimal reader that parses a file again.
    struct Reader<'a>(&'a [u8]);

    impl Reader<'_> {
        fn array<const N: usize>(&mut self) -> [u8; N] {
            let (taken, rest) = self.0.split_first_chunk().unwrap();
            self.0 = rest;
            *taken
        }

        fn u32(&mut self) -> u32 {
            u32::from_le_bytes(self.array())
        }

        fn count(&mut self) -> usize {
            u64::from_le_bytes(self.array()).try_into().unwrap()
        }

        fn text(&mut self) -> String {
            let length = self.count();
            let (text, rest) = self.0.split_at(length);
            self.0 = rest;
            str::from_utf8(text).unwrap().to_owned()
        }

        fn value(&mut self, kind: u32) -> String {
            match kind {
                4 => self.u32().to_string(),
                5 => i32::from_le_bytes(self.array()).to_string(),
                6 => f32::from_le_bytes(self.array()).to_string(),
                7 => (self.array() == [1_u8]).to_string(),
                8 => self.text(),
                9 => {
                    let (kind, count) = (self.u32(), self.count());
                    let values: Vec<_> = (0..count).map(|_| self.value(kind)).collect();
                    values.join(",")
                }
                other => panic!("no type has the number {other}"),
            }
        }
    }

    #[test]
    fn a_written_file_can_be_read_back() {
        let numbers = vec![-1, 2];
        let texts = ["ä", ""].map(String::from).to_vec();
        let file = Gguf::default()
            .entry("u32", Value::U32(7))
            .entry("f32", Value::F32(0.5))
            .entry("bool", Value::Bool(true))
            .entry("text", Value::Text("Grüße".to_owned()))
            .entry("numbers", Value::I32s(numbers))
            .entry("texts", Value::Texts(texts))
            .vector("ones", 3, 1.0)
            .matrix("table", 2, 4, |output, input| (10 * output + input) as f32)
            .into_bytes();

        let mut reader = Reader(&file);
        assert_eq!(&reader.array(), b"GGUF");
        assert_eq!(reader.u32(), 3);
        let (tensors, entries) = (reader.count(), reader.count());
        let entries: Vec<_> = (0..entries)
            .map(|_| {
                let (key, kind) = (reader.text(), reader.u32());
                format!("{key}={}", reader.value(kind))
            })
            .collect();
        let expected = [
            "u32=7",
            "f32=0.5",
            "bool=true",
            "text=Grüße",
            "numbers=-1,2",
            "texts=ä,",
        ];
        assert_eq!(entries, expected);

        let tensors: Vec<_> = (0..tensors)
            .map(|_| {
                let (name, dimensions) = (reader.text(), reader.u32());
                let dimensions: Vec<_> = (0..dimensions).map(|_| reader.count()).collect();
                assert_eq!(reader.u32(), 0, "f32");
                (name, dimensions, reader.count())
            })
            .collect();
        let expected = [
            ("ones".to_owned(), vec![3], 0),
            ("table".to_owned(), vec![4, 2], 32),
        ];
        assert_eq!(tensors, expected);

        let described = file.len() - reader.0.len();
        let mut values = Reader(&file[described.next_multiple_of(ALIGNMENT)..]);
        let mut values = std::iter::from_fn(|| {
            (!values.0.is_empty()).then(|| f32::from_le_bytes(values.array()))
        });
        let ones: Vec<_> = values.by_ref().take(ALIGNMENT / 4).collect();
        assert_eq!(ones, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(
            values.collect::<Vec<_>>(),
            [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]
        );
    }
}
