package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Instrument adds telemetry to the runtime of these options. It replaces earlier telemetry.
func (t *Telemetry) Instrument(o *agent.Options) {
	var host mcpclient.HostOptions
	if o.Host != nil {
		host = *o.Host
	}
	t.InstrumentHost(&host)
	o.Host, o.Tracer = &host, t
}

// InstrumentHost adds telemetry to a host without a runtime.
func (t *Telemetry) InstrumentHost(o *mcpclient.HostOptions) {
	o.Trace, o.TraceContext = t.Request, t.inject
}

// inject returns the trace of a request, for its _meta.
func (t *Telemetry) inject(ctx context.Context) map[string]string {
	carrier := make(propagation.MapCarrier)
	t.propagator.Inject(ctx, carrier)
	return carrier
}
