package provider

import (
	"cmp"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// Why a request did not go out; the error is an [*llm.Error] around one of these, or
// around [actors.ErrStopped] for one that was killed.
var (
	// ErrBusy refuses a request because too many wait already.
	ErrBusy = llm.ErrBusy
	// ErrCircuitOpen refuses a request because those before it have failed in a row.
	ErrCircuitOpen = llm.ErrCircuitOpen
	// ErrClosed ends a request because the group was closed.
	ErrClosed = errors.New("the providers are closed")
)

// Options changes what a provider lets through; nil is the same as the zero value.
type Options struct {
	// Concurrency bounds the requests that are out at once. Zero means 8.
	Concurrency int
	// Queue bounds those that wait, for a place or for another attempt. Beyond it a
	// request fails with [ErrBusy]. Zero means 1024.
	Queue int
	// PerMinute bounds how many attempts begin within any minute. Zero means no limit.
	PerMinute int
	// Circuit says when the provider is left alone.
	Circuit Circuit
	// Retry says which failures are made up for by another attempt. Nil means its
	// defaults, MaxAttempts 1 switches it off.
	Retry *llm.RetryOptions
}

// Circuit leaves a failing provider alone for a while.
//
//	         failures in a row                  Open has passed
//	closed ─────────────────────▶ open ─────────────────────────▶ half-open
//	   ▲                            ▲  one request fails              │
//	   │                            └─────────────────────────────────┤
//	   └────────── it is answered ────────────────────────────────────┘
//
// A failure is a retryable one but for a rate limit (status 429): a server that says
// so is well.
type Circuit struct {
	// Failures in a row open it. Zero means 5; below zero it never opens.
	Failures int
	// Open is how long no request goes out. Zero means 30 s.
	Open time.Duration
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Concurrency = max(1, cmp.Or(d.Concurrency, 8))
	d.Queue = max(0, cmp.Or(d.Queue, 1024))
	d.PerMinute = max(0, d.PerMinute)
	d.Circuit.Failures = cmp.Or(d.Circuit.Failures, 5)
	d.Circuit.Open = cmp.Or(d.Circuit.Open, 30*time.Second)
	if d.Retry == nil {
		d.Retry = &llm.RetryOptions{}
	}
	return d
}
