package agent

import (
	"context"

	"github.com/troupe-dev/troupe/mcpclient"
)

// Servers waits until every server is ready or has failed, or for ctx, and
// returns how they stand, in the order they were given. Each has a bound of its
// own: see [mcpclient.Server].ConnectTimeout.
func (rt *Runtime) Servers(ctx context.Context) ([]mcpclient.ServerStatus, error) {
	if _, err := rt.servers.host.Tools(ctx); err != nil {
		return nil, err
	}
	return rt.servers.host.Servers(), nil
}
