package models

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/columns"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm/ollama"
)

func pullCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "pull MODEL",
		Short: "Let Ollama get a model",
		Long: `Let Ollama get a model from its library. The model's name is Ollama's, such as qwen3:8b, or begins
with a provider of the type ollama. What was got before an interruption is kept: run it again to go on.`,
		Example: "  troupe models pull qwen3:8b\n  troupe models pull gpubox/qwen3:32b",
		Args:    env.OneArg("the name of a model"),
		RunE:    func(cmd *cobra.Command, args []string) error { return pullModel(cmd.Context(), e, args[0]) },
	}
}

func pullModel(ctx context.Context, e *env.Env, name string) error {
	s, err := e.Config()
	if err != nil {
		return err
	}
	provider, model, ok := s.Backends.Qualified(name)
	if !ok { // names of Ollama's own may have slashes too
		provider, model = config.TypeOllama, name
	}
	at, err := s.Backends.Provider(provider)
	if err != nil {
		return env.Usagef("%w", err)
	}
	server, ok := at.Ollama()
	if !ok {
		return env.Usagef("%s is no Ollama: its models are where they are", provider)
	}
	bar := newPullBar(e)
	err = server.Pull(ctx, model, bar.show)
	bar.finish()
	switch {
	case ctx.Err() != nil:
		e.Note("what was got is kept: the same command goes on from there")
		return context.Cause(ctx)
	case err != nil && env.Unreachable(err):
		return env.ExitWith(env.ExitUnreachable, fmt.Errorf("getting %s: %w", model, err))
	case err != nil:
		return fmt.Errorf("getting %s: %w", model, err)
	}
	e.Note("%s/%s is there; try it with: troupe models test %[1]s/%[2]s", provider, model)
	return nil
}

// pullBar shows how far a pull is: a bar on a terminal, else a line for each step and each
// tenth of a part.
type pullBar struct {
	out   io.Writer // nil shows nothing
	bar   bool
	width func() int // of the terminal; nil without a bar

	step  string // the line that is shown now
	tenth int64  // of the part, that was told last
	last  time.Time
	drawn bool
}

func newPullBar(e *env.Env) *pullBar {
	b := &pullBar{out: e.Stderr}
	if e.Quiet {
		b.out = io.Discard
	}
	if f := e.Progress(); f != nil {
		b.bar, b.width = true, func() int { return env.WidthOf(f) }
	}
	return b
}

// redraw is how often a bar is drawn at most.
const redraw = 100 * time.Millisecond

// show takes the next progress.
func (b *pullBar) show(p ollama.Progress) {
	step := env.Plain(p.Status)
	fresh := step != b.step
	if fresh {
		b.finish()
		b.step, b.tenth, b.last = step, 0, time.Time{}
	}
	done := p.Total > 0 && p.Completed >= p.Total
	if b.bar {
		if now := time.Now(); fresh || done || now.Sub(b.last) >= redraw {
			b.last, b.drawn = now, true
			fmt.Fprintf(b.out, "\r\x1b[K%s", pullLine(step, p.Completed, p.Total, b.width()))
		}
		return
	}
	if p.Total <= 0 {
		if fresh {
			fmt.Fprintf(b.out, "  %s\n", step)
		}
		return
	}
	if tenth := 10 * min(p.Completed, p.Total) / p.Total; fresh || tenth > b.tenth {
		b.tenth = tenth
		fmt.Fprintf(b.out, "  %s %d%% of %s\n", step, 10*tenth, bytesText(p.Total))
	}
}

// finish leaves the drawn line where it is, and begins another.
func (b *pullBar) finish() {
	if b.drawn {
		fmt.Fprintln(b.out)
		b.drawn = false
	}
}

// pullLine is a line of a terminal, no wider than it.
func pullLine(step string, completed, total int64, width int) string {
	width = max(width-1, 20) // a full line would wrap
	if total <= 0 {
		return env.Shorten("  "+step, width)
	}
	completed = max(0, min(completed, total))
	figures := fmt.Sprintf(" %3d%% %s of %s", 100*completed/total, bytesText(completed), bytesText(total))
	name := env.Shorten("  "+step, max(8, width-len(figures)-14))
	cells := min(40, width-columns.Width(name)-len(figures)-3)
	if cells < 4 {
		return env.Shorten(name+figures, width)
	}
	full := int(int64(cells) * completed / total)
	return name + " [" + strings.Repeat("#", full) + strings.Repeat("-", cells-full) + "]" + figures
}

// bytesText writes a number of bytes with a unit.
func bytesText(n int64) string {
	const k = 1000
	switch {
	case n >= k*k*k:
		return fmt.Sprintf("%.1f GB", float64(n)/(k*k*k))
	case n >= k*k:
		return fmt.Sprintf("%.0f MB", float64(n)/(k*k))
	case n >= k:
		return fmt.Sprintf("%.0f kB", float64(n)/k)
	}
	return fmt.Sprintf("%d B", n)
}
