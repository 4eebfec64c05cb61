package oldsse

import (
	"context"
	"fmt"
	"net/http"

	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// authorized sends what request makes, again if it was refused, and so not carried out, and
// there is something else to prove who we are with. Denied says why there is not; it is for
// [Options.refused].
func (l *Link) authorized(ctx context.Context, request func() *http.Request) (resp *http.Response, denied, err error) {
	var refusals httpguard.Refusals
	for {
		req := request().WithContext(ctx)
		if err := httpguard.Authorize(ctx, l.opts.Auth, req, req.Header); err != nil {
			return nil, nil, fmt.Errorf("authorizing the request: %w", err)
		}
		resp, err := httpguard.Do(l.opts.Client, req, 0)
		if err != nil {
			return nil, nil, err
		}
		again, denied := refusals.Again(ctx, l.opts.Auth, req, resp)
		if !again || denied != nil {
			return resp, denied, nil
		}
		httpguard.Discard(resp)
	}
}
