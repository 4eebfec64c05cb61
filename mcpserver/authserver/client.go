package authserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/internal/weburl"
	"github.com/troupe-dev/troupe/mcpserver/internal/visit"
	"github.com/troupe-dev/troupe/store"
)

// Client is a client that is known without registration.
type Client struct {
	// ID is what the client calls itself in requests.
	ID string
	// Secret proves that at the token endpoint. Empty is a public client, such as a program on the
	// machine of its user.
	Secret string
	// Name is what pages call the client. Empty is its ID.
	Name string
	// RedirectURIs are where browsers may be sent with a code: https, http on the machine of the
	// browser (any port then), or a scheme of the client's own.
	RedirectURIs []string
}

// client is one that is known.
type client struct {
	ID         string           `json:"id"`
	Name       string           `json:"name,omitzero"`
	Redirects  []string         `json:"redirects"`
	Method     oauth.AuthMethod `json:"method"`
	SecretHash string           `json:"secret,omitzero"`
	NoRefresh  bool             `json:"noRefresh,omitzero"`
	Created    time.Time        `json:"created,omitzero"`

	kind clientKind
}

// clientKind says who vouches for a client.
type clientKind int

const (
	configured clientKind = iota // the program
	described                    // the host of the document at its id
	registered                   // itself alone
)

// Bounds on what a client says of itself.
const (
	maxDocument  = 5 << 10 // bytes of a document
	maxRedirects = 10
	maxRedirect  = 1000 // bytes
	maxName      = 100
)

func (c *Client) check() (*client, error) {
	known := &client{ID: c.ID, Name: cmp.Or(c.Name, c.ID), Redirects: c.RedirectURIs, Method: oauth.AuthNone, kind: configured}
	if c.Secret != "" {
		known.Method, known.SecretHash = oauth.AuthBasic, visit.Digest(c.Secret)
	}
	if c.ID == "" || len(c.ID) > 256 || strings.HasPrefix(c.ID, "https://") {
		return nil, errors.New("its ID is empty, longer than 256 bytes, or the address of a document")
	}
	return known, checkRedirects(c.RedirectURIs, true)
}

// checkRedirects checks where a client wants browsers sent to. Only a client that the program
// knows may have a scheme of its own (AUTH-05).
func checkRedirects(all []string, known bool) error {
	if len(all) == 0 || len(all) > maxRedirects {
		return fmt.Errorf("it has %d redirect URIs, want 1 to %d", len(all), maxRedirects)
	}
	for _, raw := range all {
		if err := checkRedirect(raw, known); err != nil {
			return fmt.Errorf("the redirect URI %.200q: %w", sanitize.Line(raw, 200), err)
		}
	}
	return nil
}

func checkRedirect(raw string, known bool) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxRedirect || strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' }):
		return errors.New("it is malformed or too long")
	case strings.Contains(raw, "#") || u.User != nil:
		return errors.New("it has a fragment or a user")
	case u.Scheme == "https" || u.Scheme == "http":
		if _, err := weburl.Check(raw); err != nil { // http only on this machine
			return err
		}
		if _, _, ok := loopback(raw); u.Scheme == "http" && !ok {
			return errors.New("want https, or http at 127.0.0.1, [::1] or localhost")
		}
		return nil
	case known && !slices.Contains([]string{"", "javascript", "data", "vbscript", "file", "blob", "about", "view-source"}, u.Scheme):
		return nil
	}
	return errors.New("want https, or http at 127.0.0.1, [::1] or localhost")
}

// loopback takes an address on the machine of the browser apart: what is before the port and
// what is behind.
func loopback(raw string) (host, rest string, ok bool) {
	after, ok := strings.CutPrefix(raw, "http://")
	if !ok {
		return "", "", false
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	host, rest = after[:end], after[end:]
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if port, err := strconv.ParseUint(host[i+1:], 10, 16); err != nil || port == 0 {
			return "", "", false
		}
		host = host[:i]
	}
	return host, rest, host == "127.0.0.1" || host == "[::1]" || host == "localhost"
}

// redirects reports whether a browser may be sent to an address: one of the client's, byte by
// byte, but for the port on the machine of the browser (RFC 8252, section 7.3).
func (c *client) redirects(to string) bool {
	if checkRedirect(to, true) != nil {
		return false
	}
	host, rest, local := loopback(to)
	return slices.ContainsFunc(c.Redirects, func(known string) bool {
		if known == to {
			return true
		}
		h, r, ok := loopback(known)
		return ok && local && h == host && r == rest
	})
}

// trusts reports whether the browser is sent to a redirect address without a person having agreed
// to (AUTH-08).
func (c *client) trusts(to string) bool {
	_, _, local := loopback(to)
	return local || c.kind == configured
}

// errNoClient is the error of a client id that is not known.
var errNoClient = errors.New("the client is not known here")

// client returns a client. The error wraps errNoClient if there is none.
func (s *Server) client(r *http.Request, id string) (*client, error) {
	if c := s.clients[id]; c != nil {
		return c, nil
	}
	if strings.HasPrefix(id, "https://") {
		return s.documentOf(r, id)
	}
	if store.CheckID("client", id) != nil {
		return nil, errNoClient
	}
	for _, pool := range []string{poolUsed, poolNew} {
		c := &client{kind: registered}
		switch found, err := s.get(r.Context(), kindClient, s.stem+pool, id, c); {
		case err != nil:
			return nil, err
		case found:
			return c, nil
		}
	}
	return nil, errNoClient
}

// documents are clients by the address of their document.
type documents struct {
	busy chan struct{} // has room for the fetches that are out at once

	mu sync.Mutex // guards by, of goroutines of net/http, each for an instant
	by map[string]*fetched
}

type fetched struct {
	client *client // nil if err is not
	err    error
	until  time.Time
}

const (
	documentLife = 5 * time.Minute // of a document that was fetched
	failureLife  = time.Minute
	maxDocuments = 1000
	maxFetches   = 8
)

func (d *documents) of(id string, now time.Time) *fetched {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.by[id]; f != nil && now.Before(f.until) {
		return f
	}
	return nil
}

func (d *documents) keep(id string, f *fetched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil || len(d.by) >= maxDocuments {
		d.by = make(map[string]*fetched)
	}
	d.by[id] = f
}

// documentOf returns the client that the document at an address describes. What could not be
// fetched is not fetched again at once, and one address may cause few fetches (SECA-33).
func (s *Server) documentOf(r *http.Request, id string) (*client, error) {
	if s.opts.NoDocuments || len(id) > 1000 {
		return nil, errNoClient
	}
	now := time.Now()
	if f := s.docs.of(id, now); f != nil {
		return f.client, f.err
	}
	if s.comers.Take(s.comers.Of(s.addressOf(r))) > 0 {
		return nil, errTooMany
	}
	select {
	case s.docs.busy <- struct{}{}:
		defer func() { <-s.docs.busy }()
	default:
		return nil, errTooMany
	}
	f := &fetched{until: now.Add(documentLife)}
	m, err := oauth.FetchMetadata(r.Context(), s.opts.HTTP, id)
	if err == nil {
		err = checkRedirects(m.RedirectURIs, false)
	}
	if err == nil && m.AuthMethod != "" && m.AuthMethod != oauth.AuthNone {
		err = fmt.Errorf("token_endpoint_auth_method is %.40q, want none", m.AuthMethod)
	}
	if err != nil {
		if r.Context().Err() != nil { // the browser has gone: that says nothing of the document
			return nil, err
		}
		f.err, f.until = fmt.Errorf("%w: its document: %s", errNoClient, sanitize.Line(err.Error(), 300)), now.Add(failureLife)
		s.log.Warn("the document of a client is not used", "client", sanitize.Line(id, 200), "error", err)
	} else {
		f.client = &client{ID: id, Name: sanitize.Line(m.Name, maxName), Redirects: m.RedirectURIs, Method: oauth.AuthNone, NoRefresh: noRefresh(m), kind: described}
	}
	s.docs.keep(id, f)
	return f.client, f.err
}

// errTooMany is the error of what may be done again in a while.
var errTooMany = &refusal{Code: "temporarily_unavailable", Description: "too many requests: try again in a while", status: http.StatusTooManyRequests}

// noRefresh reports whether a client says that it wants no refresh tokens.
func noRefresh(m *oauth.Metadata) bool {
	return len(m.GrantTypes) > 0 && !slices.Contains(m.GrantTypes, grantRefresh)
}

// Registrations are records of two owners: those that no person has used yet, which a flood of
// them displaces, and the others.
const (
	kindClient = "authserver-client"
	poolNew    = "new"
	poolUsed   = "used"

	newLife  = 24 * time.Hour
	usedLife = 90 * 24 * time.Hour // after the last grant
	maxNew   = 500
	newSafe  = 15 * time.Minute // a registration is not displaced before: its person is logging in
)

// registration is the answer to a client that registers (RFC 7591, section 3.2.1).
type registration struct {
	ID            string           `json:"client_id"`
	Secret        string           `json:"client_secret,omitzero"`
	SecretExpires *int64           `json:"client_secret_expires_at,omitempty"`
	Issued        int64            `json:"client_id_issued_at"`
	Name          string           `json:"client_name,omitzero"`
	RedirectURIs  []string         `json:"redirect_uris"`
	Method        oauth.AuthMethod `json:"token_endpoint_auth_method"`
	GrantTypes    []string         `json:"grant_types"`
	ResponseTypes []string         `json:"response_types"`
}

// register takes a client in (RFC 7591).
func (s *Server) register(w http.ResponseWriter, r *http.Request) error {
	if s.opts.NoRegistration {
		return &refusal{Code: "access_denied", Description: "clients do not register here", status: http.StatusForbidden}
	}
	if s.comers.Take(s.comers.Of(s.addressOf(r))) > 0 {
		return errTooMany
	}
	raw, err := io.ReadAll(r.Body)
	var m oauth.Metadata
	if err != nil || jsonx.Unmarshal(raw, &m) != nil {
		return refuse("invalid_client_metadata", "want a JSON object of at most 64 KiB, whose members have the types of RFC 7591")
	}
	if err := checkRedirects(m.RedirectURIs, false); err != nil {
		return refuse("invalid_redirect_uri", err.Error())
	}
	now := time.Now()
	c := &client{
		ID: fmt.Sprintf("%010x-%s", now.Unix(), rand.Text()[:20]), Name: sanitize.Line(m.Name, maxName), Redirects: m.RedirectURIs, Method: m.AuthMethod,
		NoRefresh: noRefresh(&m), Created: now, kind: registered,
	}
	answer := registration{ID: c.ID, Issued: now.Unix(), Name: c.Name, RedirectURIs: c.Redirects, GrantTypes: []string{grantCode, grantRefresh}, ResponseTypes: []string{"code"}}
	if c.NoRefresh {
		answer.GrantTypes = answer.GrantTypes[:1]
	}
	switch m.AuthMethod {
	case oauth.AuthBasic, oauth.AuthPost:
		answer.Secret, answer.SecretExpires = visit.Random(), new(int64)
		c.SecretHash = visit.Digest(answer.Secret)
	case "", oauth.AuthNone: // without a word of it the client is public: a program on a machine keeps no secret
		c.Method = oauth.AuthNone
	default:
		return refuse("invalid_client_metadata", "token_endpoint_auth_method: want none, client_secret_basic or client_secret_post")
	}
	answer.Method = c.Method
	if err := s.makeRoom(r.Context(), now); err != nil {
		return err
	}
	if err := s.put(r.Context(), kindClient, s.stem+poolNew, c.ID, c, now.Add(newLife)); err != nil {
		return err
	}
	s.log.Info("a client has registered", "client", c.ID, "name", c.Name, "address", s.addressOf(r))
	s.answer(w, http.StatusCreated, &answer)
	return nil
}

// makeRoom removes the oldest registration that no person has used, where there are too many. Ids
// begin with the time, so the first is the oldest.
func (s *Server) makeRoom(ctx context.Context, now time.Time) error {
	list, err := s.opts.Store.Records(ctx, store.RecordQuery{Kind: kindClient, Owner: s.stem + poolNew})
	if err != nil || len(list) < maxNew {
		return err
	}
	oldest, _, _ := strings.Cut(list[0].Key, "-")
	made, err := strconv.ParseInt(oldest, 16, 64)
	if err == nil && now.Sub(time.Unix(made, 0)) < newSafe {
		return errTooMany
	}
	if err := s.opts.Store.DeleteRecord(ctx, kindClient, s.stem+poolNew, list[0].Key); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// used keeps the registration of a client that a person has agreed to. A pool that is full is no
// reason to refuse: the registration only ends earlier.
func (s *Server) used(ctx context.Context, c *client) {
	if c.kind != registered {
		return
	}
	life := max(usedLife, s.opts.GrantLife+newLife)
	if err := s.put(ctx, kindClient, s.stem+poolUsed, c.ID, c, time.Now().Add(life)); err != nil {
		s.log.Warn("a registration is not kept for long", "client", c.ID, "error", err)
		return
	}
	if err := s.opts.Store.DeleteRecord(ctx, kindClient, s.stem+poolNew, c.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.log.Warn("a registration is kept twice", "client", c.ID, "error", err)
	}
}

// authenticate returns the client that calls an endpoint.
func (s *Server) authenticate(r *http.Request, form url.Values) (*client, error) {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if header := r.Header["Authorization"]; len(header) > 0 {
		user, password, ok := r.BasicAuth()
		user, e1 := url.QueryUnescape(user) // RFC 6749, section 2.3.1
		password, e2 := url.QueryUnescape(password)
		if !ok || len(header) > 1 || e1 != nil || e2 != nil || secret != "" || id != "" && id != user {
			return nil, refuse("invalid_request", "want client id and secret once: in the header, or in the form")
		}
		id, secret = user, password
	}
	bad := &refusal{Code: "invalid_client", Description: "the client is not known here, or its secret is wrong", status: http.StatusUnauthorized}
	if id == "" {
		return nil, bad
	}
	c, err := s.client(r, id)
	switch {
	case errors.Is(err, errNoClient):
		return nil, bad
	case err != nil:
		return nil, err
	case c.SecretHash == "" && secret == "":
		return c, nil
	case c.SecretHash == "" || !oauth.NewSecret(visit.Digest(secret)).Equal(oauth.NewSecret(c.SecretHash)):
		return nil, bad
	}
	return c, nil
}

// put keeps a value, sealed for its place.
func (s *Server) put(ctx context.Context, kind, owner, key string, value any, expires time.Time) error {
	plain, err := jsonx.Marshal(value)
	if err != nil {
		return err
	}
	box := s.cookies.Seal.Seal(plain, []byte(kind+"\x00"+owner+"\x00"+key))
	raw := strconv.AppendQuote(nil, base64.StdEncoding.EncodeToString(box))
	return s.opts.Store.PutRecord(ctx, store.Record{Kind: kind, Owner: owner, Key: key, Value: raw, Expires: expires})
}

// get reads a value, if it is there.
func (s *Server) get(ctx context.Context, kind, owner, key string, value any) (found bool, err error) {
	r, err := s.opts.Store.Record(ctx, kind, owner, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.openRecord(&r, value)
}

func (s *Server) openRecord(r *store.Record, value any) error {
	var box []byte
	err := jsonx.Unmarshal(r.Value, &box)
	if err == nil {
		box, err = s.cookies.Seal.Open(box, []byte(r.Kind+"\x00"+r.Owner+"\x00"+r.Key))
	}
	if err == nil {
		err = jsonx.Unmarshal(box, value)
	}
	if err != nil {
		return fmt.Errorf("the record %s of the authorization server cannot be opened: was the key (TROUPE_KEY, or the key file) replaced? (%w)", r.Kind, err)
	}
	return nil
}
