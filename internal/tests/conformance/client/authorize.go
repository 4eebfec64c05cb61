package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store/memstore"
)

// metadataURL is where the suite expects the description of a client to be.
const metadataURL = "https://conformance-test.local/client-metadata.json"

// redirectURI is where the suite expects browsers to be sent.
const redirectURI = "http://localhost:3000/callback"

// authorizing returns what authorizes the scenarios of authorization: its person agrees at
// once, and its browser is one request.
func authorizing(sys *actors.System) (*auth.Authorizer, error) {
	return auth.New(auth.Options{
		System: sys, Vault: memstore.New(nil), Keys: [][]byte{seal.NewKey()},
		ClientMetadataURL: metadataURL, RedirectURI: redirectURI, Authorize: visit,
	})
}

// visit is a browser that is sent back at once.
func visit(ctx context.Context, r *auth.Request) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return err
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	location := resp.Header.Get("Location")
	if location == "" {
		return fmt.Errorf("the authorization server answers %s and sends the browser nowhere", resp.Status)
	}
	return r.Redirected(ctx, location)
}

// oauthOf is what a scenario has configured.
func oauthOf(name string, detail json.RawMessage) (o mcpclient.OAuth, err error) {
	var context struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Issuer       string `json:"issuer"`
		PrivateKey   string `json:"private_key_pem"`
		Workload     string `json:"valid_jwt"`
		IDToken      string `json:"idp_id_token"`
		IDPClientID  string `json:"idp_client_id"`
		IDPIssuer    string `json:"idp_issuer"`
	}
	if len(detail) > 0 {
		if err := mcp.Unmarshal(detail, &context); err != nil {
			return o, fmt.Errorf("reading the context: %w", err)
		}
	}
	o = mcpclient.OAuth{AnyIssuer: true,
		ClientID: context.ClientID, ClientSecret: context.ClientSecret, Issuer: context.Issuer, PrivateKey: context.PrivateKey,
		IdentityProvider: mcpclient.IdentityProvider{Issuer: context.IDPIssuer, ClientID: context.IDPClientID},
	}
	switch name {
	case "auth/client-credentials-jwt", "auth/client-credentials-basic":
		o.Grant = mcpclient.GrantClient
	case "auth/wif-jwt-bearer":
		o.Grant, o.Assertion = mcpclient.GrantAssertion, always(context.Workload)
	case "auth/enterprise-managed-authorization":
		o.Grant, o.Assertion = mcpclient.GrantEnterprise, always(context.IDToken)
	}
	return o, nil
}

func always(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

// refusals are the scenarios in which a client must not be authorized: that is how they end.
var refusals = []string{
	"auth/resource-mismatch", "auth/metadata-issuer-mismatch", "auth/scope-retry-limit",
	"auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized",
}

// ending judges how a scenario has ended.
func ending(name string, err error) error {
	if !slices.Contains(refusals, name) {
		return err
	}
	if !errors.Is(err, mcpclient.ErrAuthRequired) {
		return fmt.Errorf("want an error of authorization, not %w", cmp.Or(err, errors.New("none")))
	}
	return nil
}
