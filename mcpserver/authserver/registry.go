package authserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/ratelimit"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/store"
)

// clients finds the clients that are known: by the program, by a document, and by registration.
type clients struct {
	*site
	*records
	known  map[string]*client // by the program
	docs   documents
	comers *ratelimit.Limits // registrations and documents of an address
	http   *http.Client
}

// newClients returns the clients of a server.
func newClients(at *site, kept *records) (*clients, error) {
	k := &clients{site: at, records: kept, known: make(map[string]*client), comers: ratelimit.New(1.0/60, 60), http: at.opts.HTTP}
	k.docs.busy, k.docs.by.Max = make(chan struct{}, maxFetches), maxDocuments
	if k.http == nil {
		guard, err := netguard.New(nil)
		if err != nil {
			return nil, err
		}
		k.http = guard.Client(&netguard.ClientOptions{Timeout: 5 * time.Second, MaxBody: maxDocument})
	}
	for _, c := range at.opts.Clients {
		known, err := c.check()
		if err != nil {
			return nil, fmt.Errorf("authserver: the client %.40q: %w", c.ID, err)
		}
		if k.known[c.ID] != nil {
			return nil, fmt.Errorf("authserver: two clients have the id %q", c.ID)
		}
		k.known[c.ID] = known
	}
	return k, nil
}

// errNoClient is the error of a client id that is not known.
var errNoClient = errors.New("the client is not known here")

// find returns a client. The error wraps errNoClient if there is none.
func (k *clients) find(r *http.Request, id string) (*client, error) {
	if c := k.known[id]; c != nil {
		return c, nil
	}
	if strings.HasPrefix(id, "https://") {
		return k.documentOf(r, id)
	}
	if store.CheckID("client", id) != nil {
		return nil, errNoClient
	}
	for _, pool := range []string{poolUsed, poolNew} {
		c := &client{kind: registered}
		switch found, err := k.get(r.Context(), kindClient, k.stem+pool, id, c); {
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
	by   memo.Map[string, *fetched]
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

// documentOf returns the client that the document at an address describes. What could not be
// fetched is not fetched again at once, and one address may cause few fetches (SECA-33).
func (k *clients) documentOf(r *http.Request, id string) (*client, error) {
	if k.opts.NoDocuments || len(id) > 1000 {
		return nil, errNoClient
	}
	now := time.Now()
	if f, ok := k.docs.by.Get(id); ok && now.Before(f.until) {
		return f.client, f.err
	}
	if k.comers.Take(k.comers.Of(k.sourceOf(r))) > 0 {
		return nil, errTooMany
	}
	select {
	case k.docs.busy <- struct{}{}:
		defer func() { <-k.docs.busy }()
	default:
		return nil, errTooMany
	}
	f := &fetched{until: now.Add(documentLife)}
	m, err := oauth.FetchMetadata(r.Context(), k.http, id)
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
		k.log.Warn("the document of a client is not used", "client", sanitize.Line(id, 200), "error", err)
	} else {
		f.client = &client{ID: id, Name: sanitize.Line(m.Name, maxName), Redirects: m.RedirectURIs, Method: oauth.AuthNone, NoRefresh: noRefresh(m), kind: described}
	}
	k.docs.by.Set(id, f, 0)
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
	newSafe  = 15 * time.Minute // another source's only registration is not displaced before: its person is logging in
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
func (k *clients) register(w http.ResponseWriter, r *http.Request) error {
	if k.opts.NoRegistration {
		return &refusal{Code: "access_denied", Description: "clients do not register here", status: http.StatusForbidden}
	}
	if k.comers.Take(k.comers.Of(k.sourceOf(r))) > 0 {
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
	now, source := time.Now(), k.mark(k.sourceOf(r))
	c := &client{
		ID: fmt.Sprintf("%010x-%s-%s", now.Unix(), source, rand.Text()[:20]), Name: sanitize.Line(m.Name, maxName), Redirects: m.RedirectURIs, Method: m.AuthMethod,
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
	if err := k.makeRoom(r.Context(), now, source); err != nil {
		return err
	}
	if err := k.put(r.Context(), kindClient, k.stem+poolNew, c.ID, c, now.Add(newLife)); err != nil {
		return err
	}
	k.log.Info("a client has registered", "client", c.ID, "name", c.Name, "address", k.addressOf(r))
	k.answer(w, http.StatusCreated, &answer)
	return nil
}

// mark stands for a source in ids of clients: who does not have the key learns nothing by it.
func (k *clients) mark(source string) string {
	mac := hmac.New(sha256.New, k.opts.Keys[0])
	mac.Write([]byte("source\x00" + source)) // it never fails
	return hex.EncodeToString(mac.Sum(nil)[:5])
}

// makeRoom removes a registration that no person has used, where there are too many: the oldest of
// the same source, so that a flood displaces its own; for a source that has none, the oldest of the
// source that has most. Ids begin with the time, so the first is the oldest, and go on with the mark of
// the source.
func (k *clients) makeRoom(ctx context.Context, now time.Time, source string) error {
	list, err := k.store.Records(ctx, store.RecordQuery{Kind: kindClient, Owner: k.stem + poolNew})
	if err != nil || len(list) < maxNew {
		return err
	}
	by, most := make(map[string][]string), source // the keys of each source
	for i := range list {
		_, rest, _ := strings.Cut(list[i].Key, "-")
		from, _, _ := strings.Cut(rest, "-")
		by[from] = append(by[from], list[i].Key)
		if len(by[source]) == 0 && len(by[from]) > len(by[most]) {
			most = from
		}
	}
	if len(by[source]) > 0 {
		most = source
	}
	victim := by[most][0]
	if len(by[most]) == 1 && most != source { // no source has more than one
		oldest, _, _ := strings.Cut(list[0].Key, "-")
		made, err := strconv.ParseInt(oldest, 16, 64)
		if err == nil && now.Sub(time.Unix(made, 0)) < newSafe {
			return errTooMany
		}
		victim = list[0].Key
	}
	if err := k.store.DeleteRecord(ctx, kindClient, k.stem+poolNew, victim); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// used keeps the registration of a client that a person has agreed to. A pool that is full is no
// reason to refuse: the registration only ends earlier.
func (k *clients) used(ctx context.Context, c *client) {
	if c.kind != registered {
		return
	}
	life := max(usedLife, k.opts.GrantLife+newLife)
	if err := k.put(ctx, kindClient, k.stem+poolUsed, c.ID, c, time.Now().Add(life)); err != nil {
		k.log.Warn("a registration is not kept for long", "client", c.ID, "error", err)
		return
	}
	if err := k.store.DeleteRecord(ctx, kindClient, k.stem+poolNew, c.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		k.log.Warn("a registration is kept twice", "client", c.ID, "error", err)
	}
}

// authenticate returns the client that calls an endpoint.
func (k *clients) authenticate(r *http.Request, form url.Values) (*client, error) {
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
	c, err := k.find(r, id)
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
