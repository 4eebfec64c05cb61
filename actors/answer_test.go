package actors_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// TestAwaitAnswer: the first answer counts, whoever gives it and in whichever way.
func TestAwaitAnswer(t *testing.T) {
	isPanic := func(o outcome) bool { _, ok := errors.AsType[*actors.PanicError](o.err); return ok }
	tests := []struct {
		name string
		work func(ctx context.Context, answer func(int, error))
		want func(outcome) bool
	}{
		{"at once", func(_ context.Context, answer func(int, error)) { answer(1, nil) }, func(o outcome) bool { return o == outcome{1, nil} }},
		{"twice", func(_ context.Context, answer func(int, error)) { answer(1, nil); answer(2, nil) }, func(o outcome) bool { return o == outcome{1, nil} }},
		{"later", func(_ context.Context, answer func(int, error)) {
			time.AfterFunc(time.Hour, func() { answer(0, errors.ErrUnsupported) })
		},
			func(o outcome) bool { return o == outcome{0, errors.ErrUnsupported} }},
		{"panic", func(context.Context, func(int, error)) { panic("no") }, isPanic},
		{"panic after", func(_ context.Context, answer func(int, error)) { answer(1, nil); panic("no") }, func(o outcome) bool { return o == outcome{1, nil} }},
		{"goexit", func(context.Context, func(int, error)) { runtime.Goexit() }, func(o outcome) bool { return o.err != nil }},
		{"ended by itself", func(ctx context.Context, answer func(int, error)) {
			actors.AfterDone(ctx, func() { answer(0, context.Cause(ctx)) })
			actors.CancelTask(ctx, errors.ErrUnsupported)
		}, func(o outcome) bool { return o == outcome{0, errors.ErrUnsupported} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := make(chan outcome, 2)
				ref := spawn(t, start(t, nil), actors.Spec{Kind: actors.KindCall, New: tasker(out)})
				run(t, ref, func(c *actors.Context) { actors.AwaitAnswer(c, tt.work, toOutcome) })
				got := <-out
				synctest.Wait()
				if !tt.want(got) || len(out) > 0 {
					t.Errorf("got %v, and %d more", got, len(out))
				}
			})
		})
	}
}

// TestAnswerEnds: what waits for an answer hears of its end: by the function that
// AwaitAnswer returns, by a stop and by a failure; each of several that listen, but none
// that does not want to any more. No goroutine waits meanwhile.
func TestAnswerEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(actors.Ref, context.CancelCauseFunc)
		want func(cause error) bool
	}{
		{"cancel", func(_ actors.Ref, cancel context.CancelCauseFunc) { cancel(errors.ErrUnsupported) }, func(err error) bool { return err == errors.ErrUnsupported }},
		{"stop", func(r actors.Ref, _ context.CancelCauseFunc) { r.Stop() }, func(err error) bool { return err == actors.ErrStopped }},
		{"failure", func(r actors.Ref, _ context.CancelCauseFunc) { r.Send(blow{}) }, isBlown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ref := spawn(t, start(t, nil), actors.Spec{Kind: actors.KindCall, New: tasker(make(chan outcome, 1))})
				heard, begun := make(chan error, 4), make(chan context.CancelCauseFunc, 1)
				run(t, ref, func(c *actors.Context) {
					begun <- actors.AwaitAnswer(c, func(ctx context.Context, answer func(int, error)) {
						tell := func() { heard <- context.Cause(ctx) }
						if unwanted := actors.AfterDone(ctx, tell); !unwanted() {
							t.Error("a function could not be forgotten")
						}
						actors.AfterDone(ctx, tell)
						actors.AfterDone(ctx, tell)
						below, cancel := context.WithCancel(ctx)
						actors.AfterDone(below, func() { tell(); cancel() })
					}, toOutcome)
				})
				cancel := <-begun
				time.Sleep(time.Minute) // idle workers have gone
				tt.end(ref, cancel)
				synctest.Wait()
				for range 3 {
					if err := <-heard; !tt.want(err) {
						t.Errorf("cause: got %v", err)
					}
				}
				if len(heard) > 0 {
					t.Error("one that was forgotten was told")
				}
			})
		})
	}
}
