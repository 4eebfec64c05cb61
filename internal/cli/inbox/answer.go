package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/internal/question"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// answerFlags say how an ask is answered.
type answerFlags struct {
	accept bool
	set    []string
	json   string
	scope  string
	more   string
	retry  bool // of a page
	open   bool
	way    string // on from a call of unknown outcome
	result string // of such a call, if it happened
	hash   string
	by     string
}

// given reports whether the answer is on the command line.
func (f *answerFlags) given() bool {
	return f.accept || len(f.set) > 0 || f.json != "" || f.scope != "" || f.more != "" || f.retry || f.open || f.way != "" || f.result != ""
}

func answerCommand(e *env.Env) *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "answer ASK",
		Short: "Answer a question; the run that waits goes on",
		Long: `Answer a question; the run that waits goes on, in whatever process it is.

Without flags it is asked on the terminal, whole. With flags the answer is what they say: an answer to a form is
held against the form before anything is decided. An ask is decided once: who comes second is told so.`,
		Example: `  troupe inbox answer -1
  troupe inbox answer 3fa85f64-1-0 --accept
  troupe inbox answer 3fa85f64-1-0 --scope run
  troupe inbox answer -1 --set city=Oslo --set days=3
  troupe inbox answer -1 --json '{"city": "Oslo", "days": 3}'
  troupe inbox answer -1 --more 20000
  troupe inbox answer -1 --retry
  troupe inbox answer -1 --outcome happened --result "It was paid as no. 4711."`,
		Args: env.OneArg("an ask"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			row, err := openAsk(cmd.Context(), e, s, args[0], f.hash)
			if err != nil {
				return err
			}
			if !f.given() {
				prompter := e.NewPrompter(nil)
				if prompter == nil {
					return env.Usagef("there is no terminal to ask on: give the answer with --accept, --set, --json, --scope, --more, --retry or --outcome, or use troupe inbox deny")
				}
				return askInTerminal(cmd.Context(), e, s, &row, prompter)
			}
			v := viewOf(&row)
			d, err := f.decide(&v)
			if err != nil {
				return err
			}
			return settle(cmd.Context(), e, s, &row, d, f.by)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.accept, "accept", false, "yes: to the call, the page, the form with its defaults, as much more as is asked for")
	flags.StringArrayVar(&f.set, "set", nil, "fill in `FIELD=VALUE` of a form (repeat)")
	flags.StringVar(&f.json, "json", "", "fill in a form with an `OBJECT`")
	flags.StringVar(&f.scope, "scope", "", "accept for `WHAT`: once (this call), run (further calls of exactly this tool in the run, too), here (and in later runs that you begin in this folder)")
	flags.StringVar(&f.more, "more", "", "allow this `AMOUNT` more of a limit")
	flags.BoolVar(&f.retry, "retry", false, "a page that is waited for is done: try the call again now (--accept says the same)")
	flags.BoolVar(&f.open, "open", false, "open a page that is waited for again")
	flags.StringVar(&f.way, "outcome", "", "of a call whose process has ended: `WHAT` came of it, or is to be done: happened, again (make it again), tell (the model that it is unknown), end (the run)")
	flags.StringVar(&f.result, "result", "", "a `TEXT` for the model: what came of a call that happened")
	flags.StringVar(&f.hash, "hash", "", "answer only if the ask has this `HASH`: it is what was shown")
	flags.StringVar(&f.by, "by", "", "who decides, for the record (default: $USER)")
	return cmd
}

func denyCommand(e *env.Env) *cobra.Command {
	var f answerFlags
	var reason string
	cmd := &cobra.Command{
		Use:     "deny ASK",
		Short:   "Say no; the run that waits goes on without",
		Long:    "Say no to a question. The run that waits goes on without: the model is told that a human has declined, and why.\nA page that is waited for is given up, and the call that it is for ends with an error.\nA login that is waited for is given up: the run goes on without the server, or its call ends with an error.\nWhere a job asks whether it goes on, its run ends.",
		Example: "  troupe inbox deny -1\n  troupe inbox deny 3fa85f64-1-0 --reason \"Not on a Friday.\"",
		Args:    env.OneArg("an ask"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			row, err := openAsk(cmd.Context(), e, s, args[0], f.hash)
			if err != nil {
				return err
			}
			v := viewOf(&row)
			return settle(cmd.Context(), e, s, &row, v.Decline(reason), f.by)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "a `TEXT` for the model: why not")
	cmd.Flags().StringVar(&f.hash, "hash", "", "deny only if the ask has this `HASH`")
	cmd.Flags().StringVar(&f.by, "by", "", "who decides, for the record (default: $USER)")
	return cmd
}

// openAsk finds an ask that waits.
func openAsk(ctx context.Context, e *env.Env, s store.Store, name, hash string) (store.Ask, error) {
	row, err := findAsk(ctx, s, name)
	switch {
	case err != nil:
		return row, err
	case row.Status != store.AskPending:
		return row, settledError(&row)
	case hash != "" && hash != row.Hash:
		return row, fmt.Errorf("the ask %s is another one than was shown: its hash is %s; see troupe inbox show %[1]s", env.Short(row.ID), env.OrNone(row.Hash))
	}
	return row, nil
}

func settledError(row *store.Ask) error {
	by := ""
	if row.By != "" {
		by = " by " + env.Plain(row.By)
	}
	return fmt.Errorf("the ask %s was %s%s at %s: %w", env.Short(row.ID), row.Status, by, row.At.Local().Format(time.DateTime), store.ErrSettled)
}

// scopeHere allows a tool in the working folder from now on. It is no scope of the run's.
const scopeHere = "here"

// decide makes a decision of the flags.
func (f *answerFlags) decide(v *AskView) (store.Decision, error) {
	if v.Bad != nil {
		return store.Decision{}, fmt.Errorf("the ask %s: %w", v.Short, v.Bad)
	}
	fills := len(f.set) > 0 || f.json != ""
	var none store.Decision
	switch {
	case fills && v.Form == nil:
		return none, env.Usagef("the ask %s is no form (its kind is %s): --set and --json have nothing to fill in", v.Short, v.Kind)
	case (f.retry || f.open) && v.Kind != runlog.AskPage:
		return none, env.Usagef("the ask %s is no page that is waited for (its kind is %s): --retry and --open mean nothing to it", v.Short, v.Kind)
	case f.retry && f.open:
		return none, env.Usagef("--retry and --open: want one of them")
	case f.more != "" && v.Limit == nil:
		return none, env.Usagef("the ask %s is not about a limit (its kind is %s): --more means nothing to it", v.Short, v.Kind)
	case f.scope != "" && f.scope != question.ScopeOnce && (f.scope != runlog.ScopeRun && f.scope != scopeHere || v.Kind != runlog.AskKind):
		return none, env.Usagef("--scope %q: want once, or run or here where a call is to be allowed", f.scope)
	case f.scope == scopeHere && v.Bound == "":
		return none, env.Usagef("--scope here: this call can only be allowed once, or for its run: it is of no server, or its policy asks each time")
	case (f.way != "" || f.result != "") && v.Kind != runlog.AskOutcome:
		return none, env.Usagef("the ask %s is not about what came of a call (its kind is %s): --outcome and --result mean nothing to it", v.Short, v.Kind)
	case v.Kind == runlog.AskOutcome && !slices.Contains(question.Outcomes, f.way):
		return none, env.Usagef("the ask %s is about what came of a call: want --outcome happened, again, tell or end", v.Short)
	case f.result != "" && f.way != runlog.OutcomeHappened:
		return none, env.Usagef("--result is for a call that happened: --outcome happened")
	}
	a := question.Answer{Scope: f.scope, More: f.more, Outcome: f.way, Result: f.result}
	if f.open {
		a.Page = mcpclient.PageOpen
	}
	var err error
	if v.Form != nil {
		if a.Content, err = f.fill(v.Form); err != nil {
			return none, env.Usagef("the form of %s: %w", v.Short, err)
		}
	}
	d, err := v.Accept(&a)
	if err != nil {
		return none, env.Usagef("the answer to %s: %w", v.Short, err)
	}
	if f.scope == scopeHere {
		d.Scope = scopeHere
	}
	return d, nil
}

// fill is what the form becomes: the object of --json, over it the fields of --set, and
// the form's defaults for the rest (ELIC-09).
func (f *answerFlags) fill(fm *form.Form) (map[string]json.RawMessage, error) {
	content := make(map[string]json.RawMessage)
	if f.json != "" {
		if err := jsonx.Unmarshal([]byte(f.json), &content); err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		if content == nil {
			return nil, errors.New("--json: want an object")
		}
	}
	typed := make(map[string]string, len(f.set))
	for _, set := range f.set {
		name, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q: want FIELD=VALUE", set)
		}
		typed[name] = value
	}
	set, err := question.Typed(fm, typed)
	if err != nil {
		return nil, err
	}
	maps.Copy(content, set)
	if extra := fm.Foreign(content); len(extra) > 0 { // it would be left out, and was typed by hand
		return nil, question.NoFieldError(fm, extra[0])
	}
	return fm.Complete(content)
}

// settle decides an ask, tells the processes that may wait for it, and says what has
// become of it.
func settle(ctx context.Context, e *env.Env, s store.Store, row *store.Ask, d store.Decision, by string) error {
	d.By = whoAmI(by)
	here := d.Scope == scopeHere
	if here {
		d.Scope = runlog.ScopeRun
	}
	done, err := s.SettleAsk(ctx, row.ID, d)
	switch {
	case errors.Is(err, store.ErrSettled):
		return settledError(&done)
	case err != nil:
		return fmt.Errorf("deciding the ask: %w", err)
	}
	e.WakeAll(ctx)
	if here {
		if err := allowHere(ctx, e, s, row); err != nil {
			return err
		}
	}
	fmt.Fprintf(e.Stdout, "%s %s\n", d.Status, done.ID)
	toOpen := row.Kind == runlog.AskURL || string(d.Answer) == string(runlog.PageDecision(string(mcpclient.PageOpen)).Answer)
	if q := viewOf(row).Asked; q != nil && q.URL != nil && d.Status == store.AskAccepted && toOpen {
		e.Note("open the page yourself, if it has not opened where the run is: %s", env.Plain(q.URL.URL))
	}
	if row.Run == "" {
		return nil
	}
	if r, err := s.Run(ctx, row.Run); err == nil && !owner.Holds(r, time.Now()) {
		e.Note("no process works on the run %s now: if it is a job's, a worker goes on with it; else: %s", env.Plain(r.ID), env.Plain(e.Command("runs", "resume", r.ID)))
	}
	return nil
}

// allowHere keeps that the tool of an ask may be called in runs of the working folder.
func allowHere(ctx context.Context, e *env.Env, s store.Store, row *store.Ask) error {
	t, err := setup.NewToolApprovals(s)
	if err != nil {
		return err
	}
	v := viewOf(row)
	if err := t.Allow(ctx, v.Server, v.Tool, v.Bound); err != nil {
		return fmt.Errorf("keeping that %s is allowed in this folder: %w", v.Tool, err)
	}
	e.Note("runs in %s may call %s from now on; troupe mcp approvals rm %[2]s takes it back", env.Plain(t.Folder), env.Plain(v.Tool))
	return nil
}

// whoAmI is who decides, for the record.
func whoAmI(by string) string {
	if by == "" {
		by = os.Getenv("USER")
	}
	if by = env.Shorten(env.Plain(strings.ToValidUTF8(by, "")), 80); by == "" {
		return "inbox"
	}
	return "inbox:" + by
}

// prompter asks on a terminal.
type prompter interface {
	mcpclient.Human
	Ask(ctx context.Context, text, prompt string) (string, error)
}

// askInTerminal shows an ask whole and settles it as the person says. Who says nothing
// leaves it as it is. One that is settled meanwhile goes away, and the error is that of [settledError].
func askInTerminal(ctx context.Context, e *env.Env, s store.Store, row *store.Ask, ask prompter) error {
	if !row.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, row.Expires, env.ErrExpired)
		defer cancel()
	}
	ctx, withdraw := context.WithCancelCause(ctx)
	var looks sync.WaitGroup
	looks.Go(func() {
		_ = env.Every(ctx, env.LookEvery, func() (bool, error) {
			now, err := s.Ask(ctx, row.ID)
			if settled := err == nil && now.Status != store.AskPending; settled {
				withdraw(settledError(&now))
			}
			return false, nil // it ends with ctx
		})
	})
	defer looks.Wait()
	defer withdraw(nil)
	v := viewOf(row)
	d, err := decideInTerminal(ctx, e, &v, row, ask)
	switch {
	case errors.Is(err, io.EOF), err == nil && d.Status == "":
		e.Note("it is left as it is")
		return nil
	case err != nil:
		return err
	}
	return settle(context.WithoutCancel(ctx), e, s, row, d, "")
}

func decideInTerminal(ctx context.Context, e *env.Env, v *AskView, row *store.Ask, ask prompter) (store.Decision, error) {
	if v.Bad == nil && v.Asked != nil {
		d, err := ask.Decide(ctx, v.Asked)
		switch {
		case err != nil:
			return store.Decision{}, err
		case d.Page != "":
			return runlog.PageDecision(string(d.Page)), nil
		case d.Action == mcp.ActionAccept:
			return v.Decided(d)
		case d.Action == mcp.ActionDecline:
			return store.Decision{Status: store.AskDeclined}, nil
		}
		return store.Decision{}, nil // undecided
	}
	text, prompt := "\n"+v.text(row, time.Now()), "[y]es, [n]o, or nothing yet: "
	switch {
	case v.Bad != nil:
		prompt = "[n]o, or nothing yet: "
	case v.Kind == runlog.AskOutcome:
		prompt = "it [h]appened, make the call [a]gain, [t]ell the model that it is unknown, [e]nd the run, or nothing yet: "
	case v.Job != nil:
		prompt = "[y]es, go on, [n]o, end its run, or nothing yet: "
	case v.Limit != nil:
		prompt = "[y]es, another amount, [n]o, or nothing yet: "
	case v.Kind == runlog.AskKind:
		prompt = "[y]es, yes to this tool for the whole [r]un, [n]o, or nothing yet: "
		if v.Bound != "" {
			prompt = "[y]es, yes to this tool for the whole [r]un, [a]lways in this folder, [n]o, or nothing yet: "
		}
	}
	for {
		line, err := ask.Ask(ctx, text, prompt)
		if err != nil {
			return store.Decision{}, err
		}
		f, understood := v.reads(strings.ToLower(strings.TrimSpace(line)))
		switch {
		case !understood:
			text = "Please say one of these."
		case f == nil:
			return store.Decision{}, nil
		case !f.given():
			return store.Decision{Status: store.AskDeclined}, nil
		default:
			if d, err := f.decide(v); err == nil {
				return d, nil
			}
			text = "Please say one of these."
		}
	}
}

// reads understands a typed line: nil flags for nothing yet, empty ones for no.
func (v *AskView) reads(line string) (*answerFlags, bool) {
	switch {
	case line == "":
		return nil, true
	case v.Bad == nil && v.Kind == runlog.AskOutcome:
		for _, way := range question.Outcomes {
			if line == way || line == way[:1] {
				return &answerFlags{way: way}, true
			}
		}
		return nil, false
	case line == "n" || line == "no":
		return new(answerFlags), true
	case v.Bad != nil:
		return nil, false
	case line == "y" || line == "yes":
		return &answerFlags{accept: true}, true
	case v.Kind == runlog.AskKind && (line == "r" || line == "run"):
		return &answerFlags{scope: runlog.ScopeRun}, true
	case v.Kind == runlog.AskKind && (line == "a" || line == "always"):
		return &answerFlags{scope: scopeHere}, true
	case v.Limit != nil:
		return &answerFlags{more: line}, true
	}
	return nil, false
}
