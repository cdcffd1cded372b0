//! The server that is killed: the program's own parts, with tools that leave traces and an approver that decides later.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use neuraxis::Mode;
use neuraxis::core::{AskApproval, JsonText, ToolOutput, ToolSpec};
use neuraxis::ports::{
    Approver, ApproverReply, BeforeCall, HookedCall, Tool, ToolContext, ToolError, ToolHook,
    TurnContext, async_trait,
};
use neuraxis_app::{App, Config, Environment, Sources, Worker};
use neuraxis_server::{ClientLimits, DecisionToken, Server};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::spec;

/// Tells this program that it is the server, and where its folder is.
pub(crate) const FOLDER: &str = "TEST_NEURAXIS_SURVIVAL_FOLDER";

/// The maximum number of pages of its database; by default, limited only by the disk.
pub(crate) const PAGES: &str = "TEST_NEURAXIS_SURVIVAL_PAGES";

/// The token that authorizes decisions at the server.
pub(crate) const TOKEN: &str = "decides";

/// Tells this program that it is a worker instead of a server.
pub(crate) const WORKER: &str = "TEST_NEURAXIS_SURVIVAL_WORKER";

/// Makes this program inspect each call before it is made.
pub(crate) const LOOKS: &str = "TEST_NEURAXIS_SURVIVAL_LOOKS";

/// The file that holds it up during the inspection, as [`World::hold_tool`](crate::world::World::hold_tool) creates it.
pub(crate) const LOOKING: &str = "looking";

/// Serves until it is killed.
pub(crate) fn serve(folder: &Path) {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let environment = Environment::of_process().unwrap();
        let file = folder.join("neuraxis.toml");
        let config = Config::load(&environment, &Sources::default().with_file(file)).unwrap();
        let tools = ["look", "note", "pay", "pay_asked"].map(|name| tool(folder, name));
        let small = small_store(&config).await;
        let is_worker = std::env::var_os(WORKER).is_some();
        let app = App::builder(&config, &environment);
        let app = match is_worker {
            true => app,
            false => app.driven_as_configured(),
        };
        let looks = std::env::var_os(LOOKS).map(|_| Looks(folder.to_owned()));
        let app = app.extend(|builder| {
            let builder = builder.tools(tools).approver(Arc::new(Later));
            let builder = match looks {
                Some(looks) => builder.tool_hook(Arc::new(looks)),
                None => builder,
            };
            match small {
                Some(store) => builder.store(Arc::new(store)),
                None => builder,
            }
        });
        let orchestrator = app.build().await.unwrap().orchestrator;
        if is_worker {
            let worker = Worker::bind(&config.driver().restate, orchestrator.runs());
            let worker = worker.await.unwrap();
            println!("listening on http://{}", worker.address());
            return worker.serve(std::future::pending()).await;
        }
        orchestrator.runs().recover().await.unwrap();
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), orchestrator.clone());
        let mut limits = ClientLimits::default();
        limits.decisions = Some(DecisionToken::new(TOKEN));
        limits.modes = Some(vec![Mode::EXPLORATORY]);
        let server = server.await.unwrap().with_limits(limits);
        println!("listening on {}", server.url());
        tokio::spawn(async move {
            let runs = orchestrator.runs();
            tokio::join!(
                runs.keep_recovering(Duration::from_millis(100)),
                runs.keep_checking_inboxes(Duration::from_secs(1)),
                runs.keep_live_exchange()
            );
        });
        server.serve(std::future::pending()).await.unwrap();
    });
}

/// Opens a database with this maximum number of pages: it fails like one on a full disk.
async fn small_store(config: &Config) -> Option<SqlStore> {
    let pages = std::env::var(PAGES).ok()?;
    let mut config = SqlConfig::new(config.store().url());
    config.max_pages = Some(pages.parse().unwrap());
    Some(SqlStore::open(&config).await.unwrap())
}

fn tool(folder: &Path, name: &str) -> Arc<dyn Tool> {
    let spec = match name {
        "look" => spec(name).read_only(),
        "note" => spec(name).idempotent(),
        _ => spec(name),
    };
    Arc::new(Counting {
        spec: spec.build(),
        folder: folder.to_owned(),
    })
}

/// Writes a line when it starts and one when it is done, and waits in between as long as a file exists.
#[derive(Debug)]
struct Counting {
    spec: ToolSpec,
    folder: PathBuf,
}

impl Counting {
    /// In a single write, so that a line is written completely or not at all.
    fn write(&self, what: &str, ctx: &ToolContext) {
        let line = format!("{what} {} {}\n", self.spec.name, ctx.effect_id);
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create(true)
            .open(self.folder.join("effects"));
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

#[async_trait]
impl Tool for Counting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.write("begun", &ctx);
        let hold = self.folder.join(format!("hold-{}", self.spec.name));
        while hold.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.write("done", &ctx);
        Ok(ToolOutput::new(arguments))
    }
}

/// Writes a line for each call that it inspects, and waits as long as a file exists.
#[derive(Debug)]
struct Looks(PathBuf);

#[async_trait]
impl ToolHook for Looks {
    async fn before(&self, call: &HookedCall) -> BeforeCall {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(self.0.join("looks"));
        let line = format!("{}\n", call.tool.name);
        file.unwrap().write_all(line.as_bytes()).unwrap();
        while self.0.join(format!("hold-{LOOKING}")).exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        BeforeCall::Continue
    }
}

#[derive(Debug)]
struct Later;

#[async_trait]
impl Approver for Later {
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        ApproverReply::Later
    }
}
