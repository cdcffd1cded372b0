//! Writes GGUF files, version 3: the format in which llama.cpp takes a model.
//!
//! Not for reading them, and only with what the scripted model needs: tensors of `f32`, of one dimension or two.

/// Where the values of a tensor may begin: at multiples of this. It is the format's default.
const ALIGNMENT: usize = 32;

/// A model file in the making.
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

    /// Adds a matrix that makes `outputs` values of `inputs` values. `weight` is told the output, then the input.
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
    /// `offset` counts from where the first tensor's values begin.
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
