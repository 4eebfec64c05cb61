package jobapi

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/internal/netguard"
)

// HookAttempts is how often a webhook is sent.
const HookAttempts = hookAttempts

// WithPost has webhooks sent by a function: id and body.
func (o HooksOptions) WithPost(f func(ctx context.Context, id string, body []byte) (time.Duration, error)) HooksOptions {
	o.post = func(ctx context.Context, _ *HooksOptions, p *pending, _ time.Time) (time.Duration, error) {
		return f(ctx, p.ID, p.Body)
	}
	return o
}

// ErrGone is a receiver that wants nothing more.
var ErrGone = errGone

// Post sends a webhook once, with a secret of its own.
func Post(ctx context.Context, g *netguard.Guard, url string, body []byte) error {
	_, err := post(ctx, &HooksOptions{Guard: g, Secret: Secret{[]byte("0123456789abcdef")}}, &pending{ID: "w1", URL: url, Body: body}, time.Now())
	return err
}

// WithRun has the command run by a function.
func (o NoticesOptions) WithRun(f func(ctx context.Context, argv []string, stdin []byte) error) NoticesOptions {
	o.run = f
	return o
}

// RunCommand runs a command once.
var RunCommand = runCommand

// Described returns the text of each metric's description.
func (m *Metrics) Described() (texts []string) {
	ch := make(chan *prometheus.Desc, 256)
	m.registry.Describe(ch)
	for close(ch); len(ch) > 0; {
		texts = append(texts, (<-ch).String())
	}
	return texts
}

// Messages of the actors.
type (
	Answered = answered
	Recorded = recorded
)
