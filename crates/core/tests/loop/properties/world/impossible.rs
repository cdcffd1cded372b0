//! Answers that come too late, and impossible inputs.

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{
    Attempt, ContentHash, Effect, EffectId, Input, InputError, RunId, ToolCallId, Vetted,
};

use super::answers::model_failed;
use super::{Open, World};
use crate::properties::plan::Answer;

impl World {
    /// Answers something the run is no longer waiting for. Only an approval is refused with an error.
    pub(super) fn answer_late(&mut self, answer: &Answer) {
        let gone: Vec<_> = self
            .gone
            .iter()
            .filter(|gone| !self.is_open(gone))
            .collect();
        if gone.is_empty() {
            return;
        }
        let gone = (*answer.which.get(&gone)).clone();
        let input = self.answer(&Open::Effect(gone), answer);
        if matches!(input, Input::ApprovalDecided(_)) {
            assert!(matches!(self.refused(input), InputError::NotWaiting(_)));
        } else {
            self.send_in_vain(input);
        }
    }

    fn is_open(&self, gone: &Effect) -> bool {
        self.open.iter().any(|open| open.id() == gone.id())
    }

    pub(super) fn do_the_impossible(&mut self, how: usize, answer: &Answer) {
        let Some(open) = self.pick(answer) else {
            return;
        };
        let mut input = self.answer(&open, answer);
        match how {
            0 => self.answer_nobody(input),
            1 => {
                if let Input::Vetted(vetted) = &mut input {
                    vetted.calls.pop();
                    let error = self.refused(input);
                    assert!(matches!(error, InputError::VerdictCount { .. }));
                }
            }
            2 => self.answer_wrongly(&open),
            _ => {
                let recorded = self.records.iter().filter_map(|record| record.active_ms);
                if recorded.max() > Some(0) {
                    let now = std::mem::take(&mut self.active);
                    assert_eq!(self.refused(input), InputError::TimeReversed);
                    self.active = now;
                }
            }
        }
    }

    fn answer_nobody(&mut self, mut input: Input) {
        let nobody = EffectId {
            run: RunId(Uuid::nil()),
            number: 1,
        };
        match &mut input {
            Input::ModelReplied(input) => input.effect_id = nobody,
            Input::ModelFailed(input) => input.effect_id = nobody,
            Input::Vetted(input) => input.effect_id = nobody,
            Input::ToolFinished(input) => input.effect_id = nobody,
            Input::Advised(input) => input.effect_id = nobody,
            Input::ApprovalDecided(input) => {
                input.arguments_hash = ContentHash::EMPTY;
                let call = input.tool_call_id.clone();
                let error = InputError::ApprovalMismatch(call);
                assert_eq!(self.refused(Input::ApprovalDecided(input.clone())), error);
                let call = ToolCallId::from_text("call_of_nobody");
                input.tool_call_id = call.clone();
                let error = self.refused(Input::ApprovalDecided(input.clone()));
                assert_eq!(error, InputError::NotWaiting(call));
                return;
            }
            other => panic!("{other:?} answers no effect"),
        }
        assert_eq!(self.refused(input), InputError::UnknownEffect(nobody));
    }

    fn answer_wrongly(&mut self, open: &Open) {
        let effect_id = match open {
            Open::Effect(effect) => effect.id().unwrap(),
            Open::Client(call) => call.effect_id,
        };
        let input = if matches!(open, Open::Effect(Effect::Vet(_))) {
            Input::ModelFailed(model_failed(effect_id, Attempt(1)))
        } else {
            Input::Vetted(Vetted {
                effect_id,
                calls: Vec::new(),
                granted: Vec::new(),
                advised: Vec::new(),
            })
        };
        let error = self.refused(input);
        assert!(matches!(error, InputError::WrongAnswer { .. }), "{error}");
    }
}
