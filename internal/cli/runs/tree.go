package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/env"
)

func TreeCommand(e *env.Env) *cobra.Command {
	var (
		asJSON, watch bool
		pid           int
		every         time.Duration
	)
	cmd := &cobra.Command{
		Use:   "tree",
		Short: "Show the actors of the workers and servers that run",
		Long: `Show the supervision tree of each worker and server of yours that runs on this machine with this store: what each actor is, how it stands, its age,
how often it was restarted and what it failed with. Actors without a mailbox of their own are counted only.
Many siblings that have nothing to tell are shown as one line; --json has them all.`,
		Example: "  troupe tree\n  troupe tree --watch\n  troupe tree --json",
		Args:    env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := &treeView{env: e, json: asJSON, pid: pid}
			if watch {
				return t.watch(cmd.Context(), max(every, 100*time.Millisecond))
			}
			return t.once(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list of trees; with --watch one list a line")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "again and again, until interrupted")
	cmd.Flags().DurationVar(&every, "every", time.Second, "with --watch: how often")
	cmd.Flags().IntVar(&pid, "pid", 0, "only this `PROCESS`")
	return cmd
}

// treeView shows trees.
type treeView struct {
	env  *env.Env
	json bool
	pid  int
}

// trees asks all processes. One that ends meanwhile is left out.
func (t *treeView) trees(ctx context.Context) ([]admin.Tree, error) {
	clients, err := t.env.Processes()
	if err != nil {
		return nil, err
	}
	all := []admin.Tree{}
	for _, c := range clients {
		if t.pid != 0 && c.PID() != t.pid {
			continue
		}
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		tree, err := c.Tree(one)
		cancel()
		switch {
		case err == nil:
			all = append(all, *tree)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, admin.ErrGone):
			t.env.Note("%v", err)
		}
	}
	return all, nil
}

func (t *treeView) once(ctx context.Context) error {
	all, err := t.trees(ctx)
	if err != nil {
		return err
	}
	if t.json {
		return t.env.PrintJSON(all)
	}
	if len(all) == 0 && t.pid != 0 {
		return env.ExitWith(env.ExitFailed, fmt.Errorf("there is no process %d that shows its tree", t.pid))
	}
	if len(all) == 0 {
		t.env.Note("no worker, server or run of this user is there; start one with troupe worker, troupe serve or troupe run")
		return nil
	}
	_, err = fmt.Fprint(t.env.Stdout, treesText(all))
	return err
}

// watch shows the trees again and again: on a terminal in place, elsewhere one after the
// other.
func (t *treeView) watch(ctx context.Context, every time.Duration) error {
	return env.Every(ctx, every, func() (bool, error) {
		all, err := t.trees(ctx)
		if err != nil {
			return false, err
		}
		return false, t.show(all)
	})
}

func (t *treeView) show(all []admin.Tree) error {
	if t.json {
		return t.env.PrintJSONLine(all)
	}
	clear := ""
	if env.OnTerminal(t.env.Stdout) && os.Getenv("TERM") != "dumb" {
		clear = "\x1b[H\x1b[2J"
	}
	_, err := fmt.Fprintf(t.env.Stdout, "%s%s\n%s", clear, time.Now().Format(time.DateTime), treesText(all))
	return err
}

func treesText(all []admin.Tree) string {
	var b strings.Builder
	for i := range all {
		treeText(&b, &all[i])
	}
	return b.String()
}

func treeText(b *strings.Builder, t *admin.Tree) {
	fmt.Fprintf(b, "%s, process %d, since %s\n", env.Plain(cmp.Or(t.Process.Command, "troupe")), t.Process.PID, t.Process.Started.Local().Format(time.DateTime))
	branch(b, t.Branches(), true, "")
	if t.More > 0 {
		fmt.Fprintf(b, "… and %d more\n", t.More)
	}
	var inline []string
	for _, k := range t.Kinds {
		if k.Inline > 0 {
			inline = append(inline, fmt.Sprintf("%s × %d", k.Kind, k.Inline))
		}
	}
	if len(inline) > 0 {
		fmt.Fprintf(b, "without a mailbox of their own: %s\n", strings.Join(inline, ", "))
	}
	tasks := 0
	for _, task := range t.Tasks {
		tasks += task.Running
	}
	fmt.Fprintf(b, "%s, %s to actors that had stopped\n", env.Count(tasks, "task"), env.Count(int(t.Dropped), "message"))
}

// branch draws branches; those at the top have no line to a parent.
func branch(b *strings.Builder, rows []admin.Branch, top bool, indent string) {
	for i, r := range rows {
		mark, next := "├─ ", "│  "
		if i == len(rows)-1 {
			mark, next = "└─ ", "   "
		}
		if top {
			mark, next = "", ""
		}
		if r.Actor == nil {
			fmt.Fprintf(b, "%s%s%s × %d\n", indent, mark, r.Kind, r.N)
			continue
		}
		fmt.Fprintf(b, "%s%s%s\n", indent, mark, actorText(r.Actor))
		branch(b, r.Below, false, indent+next)
	}
}

func actorText(a *admin.Actor) string {
	text := a.Kind
	if name := a.Name(); name != "" {
		text += " " + env.Shorten(env.Plain(name), 60)
	}
	text += fmt.Sprintf("  %s, %s", a.State, ageText(time.Duration(a.AgeMS)*time.Millisecond))
	if a.Restarts > 0 {
		text += fmt.Sprintf(", restarted %d times", a.Restarts)
	}
	if a.Title != "" {
		text += "  " + env.Shorten(env.Plain(a.Title), 60)
	}
	if a.LastError != "" {
		text += "  failed with: " + env.Shorten(env.Plain(a.LastError), 160)
	}
	return text
}

// ageText is an age in one unit.
func ageText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
