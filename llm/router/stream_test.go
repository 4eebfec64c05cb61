package router_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/router"
)

func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hello")}} }

func scripted(name string, turns ...llmtest.Turn) (router.Card, *llmtest.Model) {
	m := llmtest.Script(turns...).Named(name)
	return router.Card{Model: m, Tools: true, JSON: true}, m
}

// watch returns a context whose observer writes down what it is told.
func watch(ctx context.Context, restart bool) (context.Context, *[]string) {
	var told []string
	o := &llm.Observer{Chose: func(c llm.Choice) {
		told = append(told, fmt.Sprintf("%s %d: %s", c.Model, c.Fallback, c.Reason))
		if (c.After != nil) != (c.Fallback > 0) || c.After != nil && !strings.HasSuffix(c.Reason, "failed: "+c.After.Error()) {
			told = append(told, fmt.Sprintf("after %v", c.After))
		}
	}}
	if restart {
		o.Restart = func() { told = append(told, "restart") }
	}
	return llm.Observe(ctx, o), &told
}

func TestStreamChooses(t *testing.T) {
	a, _ := scripted("x/a", llmtest.Say("from a"))
	b, modelB := scripted("x/b", llmtest.Say("from b"))
	r := open(t, []router.Card{a, b}, nil)
	req := hello()
	req.Model = "b"
	ctx, told := watch(t.Context(), false)
	resp, err := llm.Generate(ctx, r, req)
	if err != nil || resp.Text() != "from b" || resp.Model != "x/b" {
		t.Fatalf("Generate: got %+v and error %v", resp, err)
	}
	if want := []string{"x/b 0: the request names it"}; !slices.Equal(*told, want) {
		t.Errorf("Chose: got %q, want %q", *told, want)
	}
	// The name is the router's; the model has its own.
	if got := modelB.Requests()[0].Model; got != "" || req.Model != "b" {
		t.Errorf("the model was asked for %q, and the request is now for %q", got, req.Model)
	}
}

func TestStreamFallsBack(t *testing.T) {
	status := func(code int, retry bool, kind error) llmtest.Turn {
		return llmtest.Fail(&llm.Error{Provider: "x", Model: "a", Status: code, Retryable: retry, Err: kind})
	}
	tests := []struct {
		name string
		turn llmtest.Turn
		next bool
	}{
		{"retryable", status(503, true, nil), true},
		{"not there", status(404, false, llm.ErrNotFound), true},
		{"key", status(401, false, llm.ErrAuth), true},
		{"quota", status(429, false, llm.ErrQuota), true},
		{"certificate", status(0, false, llm.ErrUnreachable), true},
		{"bad request", status(400, false, llm.ErrInvalidRequest), false},
		{"context", status(400, false, llm.ErrContextLength), false},
		{"a bug", llmtest.Fail(errors.New("a bug")), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, _ := scripted("x/a", tt.turn)
			b, modelB := scripted("x/b", llmtest.Say("from b"))
			ctx, told := watch(t.Context(), false)
			resp, err := llm.Generate(ctx, open(t, []router.Card{a, b}, nil), hello())
			if asked := len(modelB.Requests()) == 1; asked != tt.next || (err == nil) != tt.next {
				t.Fatalf("Generate: got %+v and error %v, the second was asked: %v, want %v", resp, err, asked, tt.next)
			}
			if tt.next && (len(*told) != 2 || !strings.Contains((*told)[1], "x/b 1: ") || !strings.Contains((*told)[1], "after x/a failed: x/a")) {
				t.Errorf("Chose: got %q, want why the second was asked", *told)
			}
		})
	}
}

// A turn that has begun is not begun again, unless its reader can take it.
func TestStreamRestarts(t *testing.T) {
	half := llmtest.Join(llmtest.Say("ha"), llmtest.Fail(&llm.Error{Provider: "x", Retryable: true, Err: llm.ErrStreamCut}))
	for _, restart := range []bool{false, true} {
		a, _ := scripted("x/a", half)
		b, modelB := scripted("x/b", llmtest.Say("whole"))
		ctx, told := watch(t.Context(), restart)
		var got []string
		var failure error
		for ev, err := range open(t, []router.Card{a, b}, nil).Stream(ctx, hello()) {
			if text, ok := ev.(llm.TextDelta); ok {
				got = append(got, text.Text)
			}
			failure = err
		}
		if restart && (failure != nil || !slices.Equal(got, []string{"ha", "whole"}) || !slices.Contains(*told, "restart")) {
			t.Errorf("with a restart: got %q and error %v, told %q", got, failure, *told)
		}
		if !restart && (!errors.Is(failure, llm.ErrStreamCut) || len(modelB.Requests()) != 0) {
			t.Errorf("without a restart: got %q and error %v, and %d requests of the second", got, failure, len(modelB.Requests()))
		}
	}
}

func TestStreamAllFail(t *testing.T) {
	a, _ := scripted("x/a", llmtest.Reply(503, "away"))
	a.Model = failing{"x/a", &llm.Error{Provider: "x", Model: "a", Retryable: true, Err: llm.ErrUnreachable}}
	b := router.Card{Model: failing{"x/b", &llm.Error{Provider: "x", Model: "b", Err: llm.ErrAuth}}}
	_, err := llm.Generate(t.Context(), open(t, []router.Card{a, b}, nil), hello())
	all, ok := errors.AsType[*router.FailedError](err)
	if !ok || len(all.Failures) != 2 || !errors.Is(err, llm.ErrUnreachable) || !errors.Is(err, llm.ErrAuth) ||
		!strings.Contains(err.Error(), "2 models failed: x/a: ") {
		t.Errorf("Generate: got error %v, want both", err)
	}
	_, err = llm.Generate(t.Context(), open(t, []router.Card{b}, nil), hello())
	if all, ok := errors.AsType[*router.FailedError](err); ok || !errors.Is(err, llm.ErrAuth) {
		t.Errorf("Generate with one model: got %v (%v), want its own error", err, all)
	}
}

// failing is a model that always fails.
type failing struct {
	name string
	err  error
}

func (f failing) Name() string { return f.name }
func (f failing) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) { yield(nil, f.err) }
}

// The end of the context is no reason to ask somebody else, nor is a reader that leaves.
func TestStreamEnds(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	a, _ := scripted("x/a", llmtest.Func(func(context.Context, *llm.Request) llmtest.Turn {
		cancel(cause)
		return llmtest.Say("late")
	}))
	b, modelB := scripted("x/b")
	if _, err := llm.Generate(ctx, open(t, []router.Card{a, b}, nil), hello()); !errors.Is(err, cause) || len(modelB.Requests()) != 0 {
		t.Errorf("Generate: got error %v and %d requests of the second, want %v and none", err, len(modelB.Requests()), cause)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	d := router.Card{Model: ending{failing{"x/d", &llm.Error{Provider: "x", Retryable: true, Err: llm.ErrUnreachable}}, func() { cancel(cause) }}}
	if _, err := llm.Generate(ctx, open(t, []router.Card{d, b}, nil), hello()); err == nil || len(modelB.Requests()) != 0 {
		t.Errorf("Generate: got error %v and %d requests of the second after the end of the context, want none", err, len(modelB.Requests()))
	}
	c, _ := scripted("x/c", llmtest.Say("1", "2", "3"))
	n := 0
	for range open(t, []router.Card{c, b}, nil).Stream(t.Context(), hello()) {
		n++
		break
	}
	if n != 1 || len(modelB.Requests()) != 0 {
		t.Errorf("left after %d events, %d requests of the second", n, len(modelB.Requests()))
	}
}

// ending is a model that fails just as its context ends.
type ending struct {
	failing
	end func()
}

func (e ending) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	e.end()
	return e.failing.Stream(ctx, req)
}

// A reader is told once that what it has is void, whoever begins anew.
func TestOneRestart(t *testing.T) {
	a, _ := scripted("x/a", llmtest.Join(llmtest.Say("ha"), llmtest.Fail(&llm.Error{Provider: "x", Retryable: true, Err: llm.ErrStreamCut})))
	a.Model = again{a.Model}
	b, _ := scripted("x/b", llmtest.Say("whole"))
	ctx, told := watch(t.Context(), true)
	resp, err := llm.Generate(ctx, open(t, []router.Card{a, b}, nil), hello())
	restarts := 0
	for _, what := range *told {
		if what == "restart" {
			restarts++
		}
	}
	if err != nil || restarts != 1 {
		t.Errorf("Generate: got %+v, error %v and %d restarts, want one: %q", resp, err, restarts, *told)
	}
}

// again is a model that takes back what its turn has said, as a provider does before
// another attempt, and then fails all the same.
type again struct{ llm.Model }

func (a again) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for ev, err := range a.Model.Stream(ctx, req) {
			if err != nil {
				llm.ObserverOf(ctx).Restart()
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Each candidate is told whether another follows.
func TestFallbackIsTold(t *testing.T) {
	var told []bool
	ask := func(name string) router.Card {
		return router.Card{Model: llmtest.Script(llmtest.Func(func(ctx context.Context, _ *llm.Request) llmtest.Turn {
			told = append(told, llm.ObserverOf(ctx).Fallback)
			return llmtest.Fail(&llm.Error{Provider: "x", Retryable: true})
		})).Named(name)}
	}
	_, err := llm.Generate(t.Context(), open(t, []router.Card{ask("x/a"), ask("x/b")}, nil), hello())
	if err == nil || !slices.Equal(told, []bool{true, false}) {
		t.Errorf("Fallback: got %v and error %v, want true and then false", told, err)
	}
}

func TestWrap(t *testing.T) {
	a, _ := scripted("x/a", llmtest.Say("wrapped"))
	n := 0
	r := open(t, []router.Card{a}, nil)
	w := r.Wrap(func(m llm.Model) llm.Model { n++; return counted{m, &n} })
	resp, err := llm.Generate(t.Context(), w, hello())
	if err != nil || resp.Text() != "wrapped" || n != 2 || w.Name() != r.Name() {
		t.Errorf("Generate: got %+v and error %v through %d", resp, err, n)
	}
	if r.Cards()[0].Model != a.Model {
		t.Error("Wrap changed the router it was called on")
	}
}

type counted struct {
	llm.Model
	n *int
}

func (c counted) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	*c.n++
	return c.Model.Stream(ctx, req)
}
