package oauth

import (
	"context"
	"net/http"
)

// Revoke has a token revoked (RFC 7009), and with a refresh token all that came of it. Hint is
// "access_token", "refresh_token", or "". A token that the server does not know is no error.
func (c *Client) Revoke(ctx context.Context, hc *http.Client, token Secret, hint string) error {
	f := &form{"revoking the token", map[string]string{"token_type_hint": hint}, map[string]Secret{"token": token}}
	a, sent, err := c.post(ctx, hc, c.Server.RevocationEndpoint, f, nil)
	if err != nil {
		return err
	}
	if a.status/100 != 2 {
		return refusal(f.op, a, sent)
	}
	return nil
}
