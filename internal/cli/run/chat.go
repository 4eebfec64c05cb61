package run

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/runs"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
	"github.com/troupe-dev/troupe/store"
)

// chatFlags are the flags of "troupe chat".
type chatFlags struct {
	setup.Flags
	resume string
	goOn   bool // --continue
}

// ChatCommand is "troupe chat".
func ChatCommand(e *env.Env) *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with an agent, line by line",
		Long: `Talk with an agent, line by line: one conversation, in which each line that you type is a run with limits of its own.
The answers go to stdout as they come. Ctrl-C ends the turn, once more the program. Lines can come from a pipe, too:
then nothing is asked, and the first turn that fails ends the conversation with its exit code.

` + chatHelp,
		Example: "  troupe chat --mcp \"npx -y @modelcontextprotocol/server-filesystem .\"\n" +
			"  troupe chat -a reader --continue\n" +
			"  printf 'What is in README.md?\\nAnd who wrote it?\\n' | troupe chat",
		Args: env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return converse(cmd.Context(), e, &f) },
	}
	f.Flags.Add(cmd)
	cmd.Flags().StringVar(&f.resume, "resume", "", "go on with the conversation of this `RUN`: its id, the beginning of one, or last")
	cmd.Flags().BoolVarP(&f.goOn, "continue", "c", false, "the same as --resume last")
	return cmd
}

const chatHelp = `Commands in a conversation:
  /tools         the tools that the servers have
  /mcp           the servers, and how they are
  /cost          what the conversation has cost so far
  /model [NAME]  the model, or another one from now on
  /help          this
  /quit          the end; so is the end of the input
A line that begins with // is said with one / less.`

// converse is a conversation that is under way.
type chat struct {
	env   *env.Env
	f     *chatFlags
	o     *setup.Opened
	agent *agent.Agent
	model string // its name
	view  *view
	lines *bufio.Scanner // of a pipe; nil on a terminal

	history []llm.Message
	lastRun string
	spent   agent.Spent
	turns   int
}

func converse(ctx context.Context, e *env.Env, f *chatFlags) (err error) {
	f.Remember = true
	if f.goOn {
		f.resume = cmp.Or(f.resume, "last")
	}
	if f.resume != "" {
		err := e.WithStore(func(s store.Store) error {
			run, err := runs.FindRun(ctx, s, f.resume)
			if err != nil {
				return err
			}
			f.resume = run.ID
			return f.Recall(ctx, e, s, &run)
		})
		if err != nil {
			return err
		}
	}
	piped := !term.IsTerminal(int(e.Stdin.Fd())) // then that is all that is said, and nothing is asked
	if piped || !e.CanAsk() {
		f.AskExpiry = waitExpiry
	}
	o, err := setup.Open(ctx, e, &f.Flags)
	if err != nil {
		return err
	}
	defer o.Close(&err)
	defer openSocket(e, o)()
	c := &chat{env: e, f: f, o: o, agent: o.Main, model: o.Model.Name(), view: newView(e, "text")}
	defer c.view.close()
	c.view.local, c.view.tools = localFilesOf(o.Servers), o.Allowed
	c.view.speak = newSpeaker(e, c.view.status)
	if piped {
		c.view.ask = nil
	}
	if c.view.ask == nil {
		c.lines = bufio.NewScanner(e.Stdin)
		c.lines.Buffer(make([]byte, 64<<10), env.MaxPrompt)
	}
	if err := c.takeUp(ctx); err != nil {
		return err
	}
	if c.view.ask != nil {
		e.Note("%s; /help says what can be typed", o.Main.Name())
	}
	err = c.talk(ctx)
	if c.lastRun != "" && c.view.ask != nil && !e.NoStore {
		e.Note("go on with: %s", e.Command("chat", "--resume", c.lastRun))
	}
	return err
}

// takeUp reads the conversation that is to go on.
func (c *chat) takeUp(ctx context.Context) error {
	if c.f.resume == "" {
		return nil
	}
	run, err := c.o.Store.Run(ctx, c.f.resume)
	if err != nil {
		return err
	}
	if c.history, err = c.o.Runtime.Conversation(ctx, run.ID); err != nil {
		return err
	}
	c.env.Note("going on with %s: %s", run.ID, env.Plain(env.Shorten(run.Title, 60)))
	return nil
}

// talk takes one line after the other.
func (c *chat) talk(ctx context.Context) error {
	for {
		line, err := c.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		line = strings.TrimSpace(strings.ToValidUTF8(line, "\uFFFD"))
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, "//"):
			line = line[1:]
		case strings.HasPrefix(line, "/"):
			if quit := c.command(ctx, line); quit {
				return nil
			}
			continue
		}
		err = c.turn(ctx, line)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && c.lines != nil:
			return err
		case err != nil && !errors.Is(err, errTurnCancelled):
			c.env.Note("%v", err)
		}
	}
}

// next is the next line. On a terminal it is asked for.
func (c *chat) next(ctx context.Context) (string, error) {
	if c.lines == nil {
		line, err := c.view.ask.Ask(ctx, "", "> ")
		if errors.Is(err, terminal.ErrNoTerminal) {
			err = io.EOF
		}
		return line, err
	}
	if c.lines.Scan() {
		return c.lines.Text(), nil
	}
	if err := c.lines.Err(); err != nil {
		return "", env.Usagef("reading stdin: %w; a line has at most %d bytes", err, env.MaxPrompt)
	}
	return "", io.EOF
}

// errTurnCancelled is the cause of a turn that Ctrl-C has ended.
var errTurnCancelled = errors.New("you have ended this turn")

// turn says one line, and shows what comes of it.
func (c *chat) turn(ctx context.Context, prompt string) error {
	run, err := c.agent.Start(ctx, prompt, &agent.RunOptions{History: c.history})
	if err != nil {
		return startError(err)
	}
	c.lastRun, c.turns = run.ID(), c.turns+1
	stop := context.AfterFunc(ctx, func() { run.Cancel(context.Cause(ctx)) })
	defer stop()
	var asked atomic.Bool // to end the turn; the next one ends the program
	defer env.InterruptsOf(ctx).Set(func() bool {
		if asked.Swap(true) {
			return false
		}
		run.Cancel(errTurnCancelled)
		c.view.open.cancelAll(errTurnCancelled)
		return true
	})()
	waiting, watchErr := c.view.watch(ctx, run)
	if watchErr != nil {
		run.Cancel(watchErr)
	}
	c.view.clear()
	res, err := run.Wait(context.WithoutCancel(ctx))
	c.view.speak.endLine()
	c.view.speak.forget()
	if res != nil {
		c.spend(&res.Spent)
		bill(c.env, res, c.agent.Priced())
	}
	if said, reading := c.o.Runtime.Conversation(context.WithoutCancel(ctx), run.ID()); reading == nil {
		c.history = said
	} else {
		c.env.Note("this turn cannot be gone on with: %v", reading)
	}
	switch {
	case waiting != nil:
		return env.ExitWith(env.ExitWaiting, errors.New(nextStep(c.env, run.ID(), false, waiting)))
	case errors.Is(err, errTurnCancelled):
		c.env.Note("%v", errTurnCancelled)
		return errTurnCancelled
	}
	if left := leftError(c.env, run.ID(), err); left != nil {
		return left
	}
	if err == nil && watchErr == nil && res.Incomplete != "" {
		c.env.Note("%s", res.Incomplete.Why())
	}
	return runError(cmp.Or(err, watchErr))
}

// spend adds what a turn has cost.
func (c *chat) spend(s *agent.Spent) {
	c.spent.Tokens += s.Tokens
	c.spent.Cost += s.Cost
	c.spent.ModelCalls += s.ModelCalls
	c.spent.ToolCalls += s.ToolCalls
}

// command does what a line says that begins with a slash. It reports whether that was
// the end.
func (c *chat) command(ctx context.Context, line string) (quit bool) {
	word, rest, _ := strings.Cut(line, " ")
	var err error
	switch word {
	case "/quit", "/exit":
		return true
	case "/help":
		fmt.Fprintln(c.env.Stdout, chatHelp)
	case "/tools":
		err = c.showTools(ctx)
	case "/mcp":
		err = c.showServers(ctx)
	case "/cost":
		c.showCost()
	case "/model":
		err = c.useModel(ctx, strings.TrimSpace(rest))
	default:
		err = fmt.Errorf("there is no command %s; /help says what there is", env.Plain(word))
	}
	if err != nil {
		c.env.Note("%v", err)
	}
	return false
}

func (c *chat) showTools(ctx context.Context) error {
	tools, err := c.o.Runtime.Host().Tools(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"TOOL", "HINTS", "DESCRIPTION"}}
	for i := range tools {
		t := &tools[i]
		rows = append(rows, []string{t.Name, setup.Hints(&t.Tool), env.Shorten(env.FirstLine(t.Tool.Description), 70)})
	}
	return c.env.Table(rows)
}

func (c *chat) showServers(ctx context.Context) error {
	servers, err := c.o.Runtime.Servers(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"SERVER", "REVISION", "TOOLS", "STATE"}}
	for _, s := range servers {
		revision, state := "", "works"
		if s.Info != nil {
			revision = string(s.Info.Version)
		}
		if err := cmp.Or(s.ListErr, s.Err); err != nil {
			state = env.FirstLine(err.Error())
		}
		rows = append(rows, []string{s.Name, revision, fmt.Sprint(s.Tools), state})
	}
	return c.env.Table(rows)
}

func (c *chat) showCost() {
	text := strings.Join([]string{env.Count(int(c.turns), "turn"), env.Count(int(c.spent.ModelCalls), "model call"), env.Count(int(c.spent.Tokens), "token"),
		env.Count(int(c.spent.ToolCalls), "tool call")}, ", ")
	if c.agent.Priced() {
		text += fmt.Sprintf(", cost %v", c.spent.Cost)
	}
	fmt.Fprintln(c.env.Stdout, text)
}

// useModel shows the model, or takes another for the turns to come.
func (c *chat) useModel(ctx context.Context, name string) error {
	if name == "" {
		fmt.Fprintln(c.env.Stdout, env.Plain(c.model))
		return nil
	}
	model, err := setup.ChooseModel(ctx, c.env, name)
	if err != nil {
		return err
	}
	def, err := c.o.Settings.AgentNamed(c.f.Agent)
	if err != nil {
		return err
	}
	other, err := setup.NewAgent(c.env, &c.f.Flags, c.o, c.agent.Name(), &def, model)
	if err != nil {
		return err
	}
	c.agent, c.model = other, model.Name()
	c.env.Note("from now on %s", env.Plain(c.model))
	return nil
}
