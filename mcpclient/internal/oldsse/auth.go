package oldsse

import (
	"context"
	"fmt"
	"net/http"

	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// authorized sends what request makes, once more if it was refused, and so not carried
// out, and there is something else to prove who we are with.
func (l *Link) authorized(ctx context.Context, request func() *http.Request) (*http.Response, error) {
	for first := true; ; first = false {
		req := request().WithContext(ctx)
		if err := httpguard.Authorize(ctx, l.opts.Auth, req, req.Header); err != nil {
			return nil, fmt.Errorf("authorizing the request: %w", err)
		}
		resp, err := httpguard.Do(l.opts.Client, req, 0)
		if err != nil || !first {
			return resp, err
		}
		again, err := httpguard.Renewed(ctx, l.opts.Auth, req, resp)
		if err != nil {
			l.opts.Log.Warn("the server refuses a request, and there is nothing new to prove who we are with", "status", resp.StatusCode, "error", err)
		}
		if !again || err != nil {
			return resp, nil
		}
		httpguard.Discard(resp)
	}
}
