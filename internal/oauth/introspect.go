package oauth

import (
	"context"
	"fmt"
	"net/http"
)

// Introspect asks an authorization server about a token (RFC 7662), at its endpoint for that,
// and reads the answer into v. An error says nothing about the token.
func (c *Client) Introspect(ctx context.Context, hc *http.Client, token Secret, v any) error {
	f := &form{"asking about the token", map[string]string{"token_type_hint": "access_token"}, map[string]Secret{"token": token}}
	a, sent, err := c.post(ctx, hc, c.Server.IntrospectionEndpoint, f, nil)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return refusal(f.op, a, sent)
	}
	if err := a.decodeSecret(v); err != nil {
		return fmt.Errorf("%s: %w", f.op, err)
	}
	return nil
}
