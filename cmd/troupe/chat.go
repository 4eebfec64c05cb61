package main

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
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// chatFlags are the flags of "troupe chat".
type chatFlags struct {
	openFlags
	resume string
	goOn   bool // --continue
}

func (p *program) chatCommand() *cobra.Command {
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.chat(cmd.Context(), &f) },
	}
	f.openFlags.add(cmd)
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

// chat is a conversation that is under way.
type chat struct {
	p     *program
	f     *chatFlags
	o     *opened
	agent *agent.Agent
	model string // its name
	view  *view
	lines *bufio.Scanner // of a pipe; nil on a terminal

	history []llm.Message
	lastRun string
	spent   agent.Spent
	turns   int
}

func (p *program) chat(ctx context.Context, f *chatFlags) (err error) {
	f.remember = true
	piped := !term.IsTerminal(int(p.stdin.Fd())) // then that is all that is said, and nothing is asked
	if piped || !p.canAsk() {
		f.askExpiry = waitExpiry
	}
	o, err := p.open(ctx, &f.openFlags)
	if err != nil {
		return err
	}
	defer o.close(&err)
	c := &chat{p: p, f: f, o: o, agent: o.main, model: o.model.Name(), view: p.newView("text")}
	defer c.view.close()
	c.view.local, c.view.tools = localFilesOf(o.servers), o.allowed
	c.view.speak = p.newSpeaker(c.view.status)
	if piped {
		c.view.ask = nil
	}
	if c.view.ask == nil {
		c.lines = bufio.NewScanner(p.stdin)
		c.lines.Buffer(make([]byte, 64<<10), maxPrompt)
	}
	if err := c.takeUp(ctx); err != nil {
		return err
	}
	if c.view.ask != nil {
		p.note("%s; /help says what can be typed", o.main.Name())
	}
	err = c.talk(ctx)
	if c.lastRun != "" && c.view.ask != nil && !p.noStore {
		p.note("go on with: troupe chat --resume %s", c.lastRun)
	}
	return err
}

// takeUp reads the conversation that is to go on.
func (c *chat) takeUp(ctx context.Context) error {
	name := c.f.resume
	if c.f.goOn {
		name = cmp.Or(name, "last")
	}
	if name == "" {
		return nil
	}
	run, err := findRun(ctx, c.o.store, name)
	if err != nil {
		return err
	}
	if c.history, err = c.o.rt.Conversation(ctx, run.ID); err != nil {
		return err
	}
	c.p.note("going on with %s: %s", run.ID, plain(shorten(run.Title, 60)))
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
			c.p.note("%v", err)
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
		return "", usagef("reading stdin: %w; a line has at most %d bytes", err, maxPrompt)
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
	defer interruptsOf(ctx).set(func() bool {
		if asked.Swap(true) {
			return false
		}
		run.Cancel(errTurnCancelled)
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
		c.p.bill(res, c.agent.Priced())
	}
	if said, reading := c.o.rt.Conversation(context.WithoutCancel(ctx), run.ID()); reading == nil {
		c.history = said
	} else {
		c.p.note("this turn can not be gone on with: %v", reading)
	}
	switch {
	case waiting != nil:
		return exitWith(exitWaiting, errors.New(c.p.nextStep(run.ID(), false, waiting)))
	case errors.Is(err, errTurnCancelled):
		c.p.note("%v", errTurnCancelled)
		return errTurnCancelled
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
		fmt.Fprintln(c.p.stdout, chatHelp)
	case "/tools":
		err = c.showTools(ctx)
	case "/mcp":
		err = c.showServers(ctx)
	case "/cost":
		c.showCost()
	case "/model":
		err = c.useModel(ctx, strings.TrimSpace(rest))
	default:
		err = fmt.Errorf("there is no command %s; /help says what there is", plain(word))
	}
	if err != nil {
		c.p.note("%v", err)
	}
	return false
}

func (c *chat) showTools(ctx context.Context) error {
	tools, err := c.o.rt.Host().Tools(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"TOOL", "HINTS", "DESCRIPTION"}}
	for i := range tools {
		t := &tools[i]
		rows = append(rows, []string{t.Name, hints(&t.Tool), shorten(firstLine(t.Tool.Description), 70)})
	}
	return c.p.table(rows)
}

func (c *chat) showServers(ctx context.Context) error {
	servers, err := c.o.rt.Servers(ctx)
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
			state = firstLine(err.Error())
		}
		rows = append(rows, []string{s.Name, revision, fmt.Sprint(s.Tools), state})
	}
	return c.p.table(rows)
}

func (c *chat) showCost() {
	text := strings.Join([]string{count(int(c.turns), "turn"), count(int(c.spent.ModelCalls), "model call"), count(int(c.spent.Tokens), "token"),
		count(int(c.spent.ToolCalls), "tool call")}, ", ")
	if c.agent.Priced() {
		text += fmt.Sprintf(", cost %v", c.spent.Cost)
	}
	fmt.Fprintln(c.p.stdout, text)
}

// useModel shows the model, or takes another for the turns to come.
func (c *chat) useModel(ctx context.Context, name string) error {
	if name == "" {
		fmt.Fprintln(c.p.stdout, plain(c.model))
		return nil
	}
	model, err := c.p.chooseModel(ctx, name)
	if err != nil {
		return err
	}
	def, err := c.o.settings.agent(c.f.agent)
	if err != nil {
		return err
	}
	other, err := c.p.newAgent(&c.f.openFlags, c.o, c.agent.Name(), &def, model)
	if err != nil {
		return err
	}
	c.agent, c.model = other, model.Name()
	c.p.note("from now on %s", plain(c.model))
	return nil
}
