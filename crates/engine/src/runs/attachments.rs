//! Finds the models that accept a request's attachments, before a run exists.
//!
//! Does not check whether the content matches its type (`media` does), nor choose which of those models serves
//! (governance does).

use neuraxis_core::{AgentSpec, MediaPart, MediaTypes, Message, Part, Role};
use neuraxis_ports::ModelInfo;

use crate::engine::Engine;
use crate::media::{self, AttachmentError, Texts};
use crate::request::{RequestError, UserRequest};

impl UserRequest {
    /// Adds an image, a sound, a file or a text that the message is about. [`attachment`](crate::attachment) creates
    /// one from a file's content.
    ///
    /// It is stored and sent as a part of the message, after its text. Only roles whose models accept it serve the
    /// request.
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

    /// Returns the message as a model is sent it: the user's text, if there is any, and the attachments.
    pub(crate) fn user_message(&self) -> Message {
        // Some providers refuse an empty text.
        let has_text = !self.message.trim().is_empty() || self.attachments.is_empty();
        let text = has_text.then(|| Part::text(self.message.as_str()));
        let parts = text.into_iter().chain(self.attachments.iter().cloned());
        let parts = parts.collect();
        Message::User { parts }
    }

    /// Checks the attachments as far as is possible without knowing the model.
    pub(crate) fn check_attachments(&self) -> Result<(), RequestError> {
        let messages = self.client_input.iter().flat_map(|it| &it.conversation);
        let before = messages.filter_map(|message| match message.as_ref() {
            Message::User { parts } => Some((parts, Texts::InMessage)),
            _ => None,
        });
        for (parts, texts) in std::iter::once((&self.attachments, Texts::Attached)).chain(before) {
            media::check_parts(parts, texts).map_err(|(number, source)| {
                let part = number.checked_sub(1).and_then(|at| parts.get(at));
                let part = match part {
                    Some(Part::Media(part)) if texts == Texts::InMessage => part.to_string(),
                    part => named(number, part),
                };
                RequestError::Attachment { part, source }
            })?;
        }
        Ok(())
    }

    /// Returns the attached media, numbered from 1, followed by the media of a client's own conversation, which have no
    /// numbers.
    fn media(&self) -> impl Iterator<Item = (Option<usize>, &MediaPart)> {
        let messages = self.client_input.iter().flat_map(|it| &it.conversation);
        let before = messages.flat_map(|message| match message.as_ref() {
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

    /// Returns the media that no model has answered yet.
    fn unanswered_media(&self) -> impl Iterator<Item = &MediaPart> {
        let client_input = self.client_input.iter();
        let latest = client_input.flat_map(|it| it.conversation.iter().rev());
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
    /// Returns the roles whose models accept a request's media; `None` if it has none. If no model, or not the
    /// requested role's, accepts all media of a conversation that the client supplied, returns the roles that accept
    /// the media no model has answered yet: the other media are left out for them, as in any history.
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
            return Err(self.unsupported_error(request, &[Role::REASONING]));
        }
        Ok(Some(roles))
    }

    /// Returns the error for a request with an attachment that none of the models that may serve it accepts; the first
    /// role with such a model stands for all.
    pub(crate) fn unsupported_error(&self, request: &UserRequest, roles: &[Role]) -> RequestError {
        let models = roles.iter().filter_map(|role| self.model(role, None));
        let mut refusals = models.filter_map(|(_, model)| refusal(request, model.info()));
        refusals.next().unwrap_or_else(|| RequestError::Attachment {
            part: named(1, request.attachments.first()),
            source: AttachmentError::NoModel,
        })
    }

    /// Returns the error for a request that names a role whose own model does not accept the attachments; `None` if it
    /// accepts all of them, or the role has no model.
    pub(crate) fn unsupported_error_of_role(
        &self,
        request: &UserRequest,
        role: &Role,
    ) -> Option<RequestError> {
        refusal(request, self.models.get(role)?.info())
    }

    /// Checks the media that were added to a conversation since the last reply of a model, and that the models that
    /// serve its agent's turns accept them.
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
            let checked = media::check_parts(&[Part::Media(part.clone())], Texts::InMessage);
            let mut fits = checked.map_err(|(_, source)| source);
            for role in &roles {
                if fits.is_ok() {
                    fits = self.accepts(role, part).await;
                }
            }
            fits.map_err(|source| RequestError::Attachment {
                part: part.to_string(),
                source,
            })?;
        }
        Ok(())
    }

    /// Checks that the model that serves a role accepts an image or a file.
    async fn accepts(&self, role: &Role, part: &MediaPart) -> Result<(), AttachmentError> {
        let takes = self.media_of(role, &[part]).await;
        match self.model(role, None) {
            Some((_, model)) if takes.refuses(&part.media_type) => {
                Err(AttachmentError::Unsupported {
                    model: model.info().model,
                    takes,
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns which media the model that serves a role accepts. Its server is asked if that is not known, and also if
    /// the model is said not to accept these: the server may have been restarted.
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

/// Returns the error for a request with an attachment that a model does not accept.
fn refusal(request: &UserRequest, info: ModelInfo) -> Option<RequestError> {
    let mut media = request.media();
    let (number, part) = media.find(|(_, part)| info.media.refuses(&part.media_type))?;
    let part = match number {
        Some(number) => named(number, Some(&Part::Media(part.clone()))),
        None => part.to_string(),
    };
    Some(RequestError::Attachment {
        part,
        source: AttachmentError::Unsupported {
            model: info.model,
            takes: info.media,
        },
    })
}

/// Describes an attachment for readers.
fn named(number: usize, part: Option<&Part>) -> String {
    match part {
        Some(Part::Media(part)) => format!("attachment {number} ({part})"),
        _ => format!("attachment {number}"),
    }
}
