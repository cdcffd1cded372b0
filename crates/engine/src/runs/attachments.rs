//! Finds the models that take what is attached to a request, before a run exists.
//!
//! Not whether the content is what its type says (`media`), nor which of those models serves, which governance decides.

use neuraxis_core::{AgentSpec, MediaPart, MediaTypes, Message, Part, Role};
use neuraxis_ports::ModelInfo;

use crate::engine::Engine;
use crate::media::{self, AttachmentError, Texts};
use crate::request::{RequestError, UserRequest};

impl UserRequest {
    /// Adds an image, a sound, a file or a text that the message is about. See [`attachment`](crate::attachment), which makes
    /// one of a file's content.
    ///
    /// It is kept and sent as a part of the message, after its text. Only roles whose models take it serve the request.
    ///
    /// ```
    /// use neuraxis_core::SessionId;
    /// use neuraxis_engine::{UserRequest, attachment};
    ///
    /// let session: SessionId = "main".parse()?;
    /// let notes = attachment("notes.txt", b"Buy milk.")?;
    /// let request = UserRequest::new(session, "What is to be bought?").attach(notes);
    /// assert_eq!(request.attachments.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn attach(mut self, part: impl Into<Part>) -> Self {
        self.attachments.push(part.into());
        self
    }

    /// Returns the message as a model is sent it: what the user says, and what is attached to it.
    pub(crate) fn user_message(&self) -> Message {
        let mut parts = vec![Part::text(self.message.as_str())];
        parts.extend(self.attachments.iter().cloned());
        Message::User { parts }
    }

    /// Checks what is attached, as far as no model has to be known.
    pub(crate) fn check_attachments(&self) -> Result<(), RequestError> {
        let brought = self.brought.iter().flat_map(|it| &it.conversation);
        let before = brought.filter_map(|message| match message.as_ref() {
            Message::User { parts } => Some((parts, Texts::Said)),
            _ => None,
        });
        for (parts, texts) in std::iter::once((&self.attachments, Texts::Attached)).chain(before) {
            media::check_parts(parts, texts).map_err(|(number, source)| {
                let part = number.checked_sub(1).and_then(|at| parts.get(at));
                let part = match part {
                    Some(Part::Media(part)) if texts == Texts::Said => part.to_string(),
                    part => named(number, part),
                };
                RequestError::Attachment { part, source }
            })?;
        }
        Ok(())
    }

    /// Returns the media that are attached, with their numbers from 1; then those of a conversation that is brought, whose parts
    /// nobody numbers.
    fn media(&self) -> impl Iterator<Item = (Option<usize>, &MediaPart)> {
        let brought = self.brought.iter().flat_map(|it| &it.conversation);
        let before = brought.flat_map(|message| match message.as_ref() {
            Message::User { parts } => parts.as_slice(),
            _ => &[],
        });
        let numbered = (1..).map(Some).zip(&self.attachments);
        let all = numbered.chain(before.map(|part| (None, part)));
        all.filter_map(|(number, part)| match part {
            Part::Media(part) => Some((number, part)),
            _ => None,
        })
    }

    /// Returns those of the media that no model has answered yet.
    fn unanswered_media(&self) -> impl Iterator<Item = &MediaPart> {
        let brought = self.brought.iter();
        let latest = brought.flat_map(|it| it.conversation.iter().rev());
        let given = latest.take_while(|message| !matches!(***message, Message::Assistant(_)));
        let parts = given.flat_map(|message| match message.as_ref() {
            Message::User { parts } => parts.as_slice(),
            _ => &[],
        });
        let parts = self.attachments.iter().chain(parts);
        parts.filter_map(|part| match part {
            Part::Media(part) => Some(part),
            _ => None,
        })
    }
}

impl Engine {
    /// Returns the roles whose models take what is attached to a request; `None` if nothing is that a model could refuse. Where
    /// none takes all that a conversation holds that is brought, or not the role that is named, those that take what no model
    /// has answered yet: the rest is left out for them, as it is in any history.
    ///
    /// # Errors
    ///
    /// [`RequestError::Attachment`] if there is no such model.
    pub(crate) async fn roles_that_take(
        &self,
        request: &UserRequest,
    ) -> Result<Option<Vec<Role>>, RequestError> {
        if request.media().next().is_none() {
            return Ok(None);
        }
        let media: Vec<&MediaPart> = request.media().map(|(_, part)| part).collect();
        let unanswered: Vec<&MediaPart> = request.unanswered_media().collect();
        let (mut of_all, mut of_unanswered) = (Vec::new(), Vec::new());
        for role in &self.roles {
            let taken = self.media_of(role, &unanswered).await;
            let takes = |parts: &[&MediaPart]| {
                let mut types = parts.iter().map(|part| part.media_type.as_str());
                !types.any(|media_type| taken.refuses(media_type))
            };
            if takes(&media) {
                of_all.push(role.clone());
            }
            if takes(&unanswered) {
                of_unanswered.push(role.clone());
            }
        }
        let is_enough = match request.role() {
            Some(role) => of_all.contains(role),
            None => !of_all.is_empty(),
        };
        let roles = if is_enough { of_all } else { of_unanswered };
        if roles.is_empty() {
            return Err(self.not_taken(request, &[Role::REASONING]));
        }
        Ok(Some(roles))
    }

    /// Returns the error of a request to which something is attached that none of the models takes that may serve it: the
    /// first of those roles stands for them all.
    pub(crate) fn not_taken(&self, request: &UserRequest, roles: &[Role]) -> RequestError {
        let models = roles.iter().filter_map(|role| self.model(role, None));
        let mut refusals = models.filter_map(|(_, model)| refusal(request, model.info()));
        refusals.next().unwrap_or_else(|| RequestError::Attachment {
            part: named(1, request.attachments.first()),
            source: AttachmentError::NoModel,
        })
    }

    /// Returns the error of a request that names a role whose own model does not take what is attached; `None` if it takes all of
    /// it, or there is no such model.
    pub(crate) fn not_taken_by(&self, request: &UserRequest, role: &Role) -> Option<RequestError> {
        refusal(request, self.models.get(role)?.info())
    }

    /// Checks the media that a conversation was given since a model spoke last, and that the models take them that serve the
    /// turns of its agent.
    ///
    /// # Errors
    ///
    /// [`RequestError::Attachment`].
    pub(crate) async fn check_media(
        &self,
        messages: &[Message],
        agent: &AgentSpec,
    ) -> Result<(), RequestError> {
        let parts: Vec<&MediaPart> = media::latest(messages).collect();
        let roles: Vec<&Role> = agent.turn_roles().collect();
        for part in parts {
            let checked = media::check_parts(&[Part::Media(part.clone())], Texts::Said);
            let mut fits = checked.map_err(|(_, source)| source);
            for role in &roles {
                if fits.is_ok() {
                    fits = self.takes(role, part).await;
                }
            }
            fits.map_err(|source| RequestError::Attachment {
                part: part.to_string(),
                source,
            })?;
        }
        Ok(())
    }

    /// Checks that the model that serves a role takes an image or a file.
    async fn takes(&self, role: &Role, part: &MediaPart) -> Result<(), AttachmentError> {
        let takes = self.media_of(role, &[part]).await;
        match self.model(role, None) {
            Some((_, model)) if takes.refuses(&part.media_type) => Err(AttachmentError::NotTaken {
                model: model.info().model,
                takes,
            }),
            _ => Ok(()),
        }
    }

    /// Returns which media the model takes that serves a role. Its server is asked if that is not known, and if it is said not to
    /// take these: it may have been started anew.
    async fn media_of(&self, role: &Role, sent: &[&MediaPart]) -> MediaTypes {
        let Some((_, model)) = self.model(role, None) else {
            return MediaTypes::Unknown;
        };
        let known = model.info().media;
        let is_refused = sent.iter().any(|part| known.refuses(&part.media_type));
        if is_refused || known == MediaTypes::Unknown {
            self.learn(model.learn_media()).await;
        }
        model.info().media
    }
}

/// Returns the error of a request to which something is attached that a model does not take.
fn refusal(request: &UserRequest, info: ModelInfo) -> Option<RequestError> {
    let mut media = request.media();
    let (number, part) = media.find(|(_, part)| info.media.refuses(&part.media_type))?;
    let part = match number {
        Some(number) => named(number, Some(&Part::Media(part.clone()))),
        None => part.to_string(),
    };
    Some(RequestError::Attachment {
        part,
        source: AttachmentError::NotTaken {
            model: info.model,
            takes: info.media,
        },
    })
}

/// Names an attachment to people.
fn named(number: usize, part: Option<&Part>) -> String {
    match part {
        Some(Part::Media(part)) => format!("attachment {number} ({part})"),
        _ => format!("attachment {number}"),
    }
}
