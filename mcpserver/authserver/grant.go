package authserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/store"
)

// A grant is what a person has consented to. It is a record of its person, as
//
//	code ── the client has the tokens ──▶ grant .1 ── refreshed ──▶ grant .2 … ── revoked, expired ──▶ gone
//
// Which request makes a step is decided by the deletion of the record before, which succeeds once,
// in all instances. A request that is late uses a code or a token for the second time: then the grant
// is ended, by a record that says so. Whatever a step that is made meanwhile leaves behind is worth
// nothing: a token counts only while that record is not there, and it is never removed before the last
// token has expired (RFC 9700, section 4.14.2).
const (
	kindCode   = "authserver-code"
	kindGrant  = "authserver-grant"
	kindEnded  = "authserver-ended"
	kindAnswer = "authserver-answer"

	codeLife  = time.Minute
	maxGrants = 50 // of one person; the oldest makes room
)

// grant is what a person has consented to.
type grant struct {
	Client   string    `json:"client"`
	Subject  string    `json:"subject"`
	Login    string    `json:"login,omitzero"` // of its person
	Resource string    `json:"resource"`
	Scopes   []string  `json:"scopes,omitzero"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`

	// Of a code only.
	Redirect  string `json:"redirect,omitzero"`
	Challenge string `json:"challenge,omitzero"`
}

// handle finds a grant: a code or a refresh token is a sealed one.
type handle struct {
	person [32]byte // hash of the subject
	id     [16]byte
	n      uint32 // of the refresh token; 0 is a code
}

// grants keeps what people have consented to.
type grants struct {
	*records
	life time.Duration // of a grant
}

// Uses of handles, which do not open in each other's place.
const (
	useCode    = "code"
	useRefresh = "refresh"
)

func newHandle(subject string) (h handle) {
	raw, _ := hex.DecodeString(visit.Digest(subject)) // of our own making
	copy(h.person[:], raw)
	_, _ = rand.Read(h.id[:]) // never fails
	return h
}

// owner and key are those of its record.
func (k *grants) owner(h handle) string { return k.stem + hex.EncodeToString(h.person[:]) }
func (h handle) grant() string          { return hex.EncodeToString(h.id[:]) }
func (h handle) key() string            { return fmt.Sprintf("%s.%08x", h.grant(), h.n) }

func (k *grants) seal(h handle, use string) string {
	plain := binary.BigEndian.AppendUint32(append(h.person[:], h.id[:]...), h.n)
	return base64.RawURLEncoding.EncodeToString(k.box.Seal(plain, []byte(use)))
}

func (k *grants) open(text, use string) (h handle, ok bool) {
	box, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return h, false
	}
	plain, err := k.box.Open(box, []byte(use))
	if err != nil || len(plain) != len(h.person)+len(h.id)+4 {
		return h, false
	}
	copy(h.person[:], plain)
	copy(h.id[:], plain[len(h.person):])
	h.n = binary.BigEndian.Uint32(plain[len(h.person)+len(h.id):])
	return h, true
}

// putCode keeps what a person has consented to, and returns the code for it.
func (k *grants) putCode(ctx context.Context, g *grant) (code string, err error) {
	h := newHandle(g.Subject)
	if err := k.put(ctx, kindCode, k.owner(h), h.grant(), g, time.Now().Add(codeLife)); err != nil {
		return "", fmt.Errorf("keeping a code: %w", err)
	}
	return k.seal(h, useCode), nil
}

// step puts the record of the next handle, and then takes the one before away. It returns false if
// another request has done that already.
func (k *grants) step(ctx context.Context, h handle, kind, before string, g *grant) (next handle, ok bool, err error) {
	next = h
	next.n++
	if err := k.put(ctx, kindGrant, k.owner(h), next.key(), g, g.Expires); err != nil {
		return h, false, fmt.Errorf("keeping a grant: %w", err)
	}
	err = k.store.DeleteRecord(ctx, kind, k.owner(h), before)
	if errors.Is(err, store.ErrNotFound) {
		return h, false, nil
	}
	return next, err == nil, err
}

// list returns the records of a grant: one, or two while a step is made.
func (k *grants) list(ctx context.Context, owner, grant string) ([]store.Record, error) {
	list, err := k.store.Records(ctx, store.RecordQuery{Kind: kindGrant, Owner: owner, After: grant + ".", Limit: 8})
	if err != nil {
		return nil, fmt.Errorf("reading a grant: %w", err)
	}
	return slices.DeleteFunc(list, func(r store.Record) bool { return !strings.HasPrefix(r.Key, grant+".") }), nil
}

// end ends a grant for good, and reports whether there was one. A step that is made meanwhile does not
// outrun it.
func (k *grants) end(ctx context.Context, h handle) (was bool, err error) {
	list, err := k.list(ctx, k.owner(h), h.grant())
	if err != nil {
		return false, err
	}
	until := time.Now().Add(k.life)
	for _, r := range list {
		if r.Expires.After(until) { // Options.GrantLife was longer
			until = r.Expires
		}
	}
	if err := k.put(ctx, kindEnded, k.owner(h), h.grant(), time.Now(), until); err != nil {
		return false, fmt.Errorf("ending a grant: %w", err)
	}
	left, err := k.list(ctx, k.owner(h), h.grant()) // what is put from now on is worth nothing, and expires
	for _, r := range left {
		if err := k.store.DeleteRecord(ctx, kindGrant, r.Owner, r.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, fmt.Errorf("ending a grant: %w", err)
		}
	}
	return len(list) > 0, err
}

// ended reports whether a grant was ended.
func (k *grants) ended(ctx context.Context, h handle) (bool, error) {
	_, err := k.store.Record(ctx, kindEnded, k.owner(h), h.grant())
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// find returns the grant of a token, nil if it has ended or the token was used.
func (k *grants) find(ctx context.Context, h handle) (*grant, error) {
	g := new(grant)
	found, err := k.get(ctx, kindGrant, k.owner(h), h.key(), g)
	if err != nil || !found {
		return nil, err
	}
	if over, err := k.ended(ctx, h); err != nil || over {
		return nil, err
	}
	return g, nil
}

// latest returns a grant by its newest record, nil if it has ended.
func (k *grants) latest(ctx context.Context, h handle) (*grant, error) {
	list, err := k.list(ctx, k.owner(h), h.grant())
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if over, err := k.ended(ctx, h); err != nil || over {
		return nil, err
	}
	g := new(grant)
	return g, k.openRecord(&list[len(list)-1], g)
}

// makeRoomFor ends the oldest grants of a person who has too many.
func (k *grants) makeRoomFor(ctx context.Context, h handle) error {
	list, err := k.store.Records(ctx, store.RecordQuery{Kind: kindGrant, Owner: k.owner(h)})
	if err != nil || len(list) < maxGrants {
		return err
	}
	type aged struct {
		key     string
		created time.Time
	}
	var all []aged
	for _, r := range list {
		var g grant
		_ = k.openRecord(&r, &g) // one that cannot be opened is the oldest
		all = append(all, aged{r.Key, g.Created})
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Or(a.created.Compare(b.created), strings.Compare(a.key, b.key)) })
	for _, one := range all[:len(all)-maxGrants+1] {
		id, _, _ := strings.Cut(one.key, ".")
		old := handle{person: h.person}
		if raw, err := hex.DecodeString(id); err != nil || copy(old.id[:], raw) != len(old.id) {
			return fmt.Errorf("making room for a grant: the record %.80q has a malformed key", one.key)
		}
		if _, err := k.end(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

// lostFor is how long the answer to a refresh counts as lost if the client asks again.
const lostFor = 10 * time.Second

// lostAnswer is the answer to a refresh, kept for a client that has not received it. Its key is the
// token that was used.
type lostAnswer struct {
	Asked  string      `json:"asked"` // what the request asked for
	Until  time.Time   `json:"until"`
	Answer tokenAnswer `json:"answer"`
}

// keep keeps an answer, for the one who asks for the same by the same token.
func (k *grants) keep(ctx context.Context, used handle, asked string, a *tokenAnswer) error {
	until := time.Now().Add(lostFor)
	if err := k.put(ctx, kindAnswer, k.owner(used), used.key(), &lostAnswer{asked, until, *a}, until); err != nil {
		return fmt.Errorf("keeping an answer: %w", err)
	}
	return nil
}

// lost returns the answer that a token was given, and the grant, while the token in it is unused; nil
// if there is none any more.
func (k *grants) lost(ctx context.Context, used handle, asked string) (*tokenAnswer, *grant, error) {
	var a lostAnswer
	found, err := k.get(ctx, kindAnswer, k.owner(used), used.key(), &a)
	if err != nil || !found || a.Asked != asked || !time.Now().Before(a.Until) {
		return nil, nil, err
	}
	used.n++
	g, err := k.find(ctx, used)
	if err != nil || g == nil {
		return nil, nil, err
	}
	return &a.Answer, g, nil
}

// refreshTime bounds a refresh: that long others wait for one of a process that has died.
const refreshTime = 15 * time.Second

// alone waits until no other request refreshes a grant, in any instance.
func (k *grants) alone(ctx context.Context, leases store.Vault, h handle) (done func(), err error) {
	by, place := rand.Text(), k.owner(h)+"."+h.grant()
	for {
		err := leases.LeaseSealed(ctx, kindGrant, place, by, refreshTime)
		if err == nil {
			return func() { _ = leases.ReleaseSealed(ctx, kindGrant, place, by) }, nil // else it expires
		}
		if !errors.Is(err, store.ErrLeased) {
			return nil, fmt.Errorf("refreshing a grant: %w", err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// handleOf returns the handle of a grant, by the claims of an access token.
func handleOf(subject, grantID string) (h handle, ok bool) {
	h = newHandle(subject)
	raw, err := hex.DecodeString(grantID)
	return h, err == nil && copy(h.id[:], raw) == len(h.id) && len(raw) == len(h.id)
}
