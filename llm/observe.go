package llm

import "context"

// Observer is told what happens to a turn between the one who asks and the model that
// answers: by retries and routers on the way. Its functions may be nil, and must not
// block. They are called by the goroutine that ranges over the stream.
type Observer struct {
	// Retry is called before each wait for another attempt.
	Retry func(Attempt)
	// Chose is called when a router has chosen the model for an attempt.
	Chose func(Choice)
	// Restart, if it is not nil, allows that a turn is asked for again after events of
	// it have been passed on: it is called first, and what came before is void. Without
	// it such a turn ends with its error.
	Restart func()
	// Fallback says that another model takes the turn if this one fails: no caller waits for a
	// server that is known to be away, and one that cannot be reached is tried only twice.
	Fallback bool
}

// Choice is a router's choice of a model for one attempt of a turn.
type Choice struct {
	Model  string // the one that is asked
	Reason string // why, in words
	// Fallback counts the candidates that have failed before, and After is the error of the
	// last of them; nil for none.
	Fallback int
	After    error
}

type observerKey struct{}

// Observe returns a context whose turns o is told of, in place of an earlier one.
func Observe(ctx context.Context, o *Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// ObserveWith is [Observe] with an observer that is made for those who ask for it: by o, which
// returns the same each time, from any goroutine.
func ObserveWith(ctx context.Context, o interface{ Observer() *Observer }) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// unobserved is the observer of a context without one.
var unobserved Observer

// ObserverOf returns the observer of the context, which is not to be changed; never nil, and
// its zero value where there is none.
func ObserverOf(ctx context.Context) *Observer {
	switch o := ctx.Value(observerKey{}).(type) {
	case interface{ Observer() *Observer }:
		return o.Observer()
	case *Observer:
		if o != nil {
			return o
		}
	}
	return &unobserved
}
