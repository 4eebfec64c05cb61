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
// in all instances. A request that is late uses a code or a token for the second time: then all
// records of the grant are deleted.
const (
	kindCode  = "authserver-code"
	kindGrant = "authserver-grant"

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
type grants struct{ *records }

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

// step puts the record of the next handle, and then takes the one before away. It returns false,
// and ends the grant, if another request has done that already.
func (k *grants) step(ctx context.Context, h handle, kind, before string, g *grant) (next handle, ok bool, err error) {
	next = h
	next.n++
	if err := k.put(ctx, kindGrant, k.owner(h), next.key(), g, g.Expires); err != nil {
		return h, false, fmt.Errorf("keeping a grant: %w", err)
	}
	err = k.store.DeleteRecord(ctx, kind, k.owner(h), before)
	if errors.Is(err, store.ErrNotFound) {
		_, err := k.end(ctx, h)
		return h, false, err
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

// end ends a grant, and reports whether there was one.
func (k *grants) end(ctx context.Context, h handle) (ended bool, err error) {
	list, err := k.list(ctx, k.owner(h), h.grant())
	for _, r := range list {
		if err := k.store.DeleteRecord(ctx, kindGrant, r.Owner, r.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, fmt.Errorf("ending a grant: %w", err)
		}
	}
	return len(list) > 0, err
}

// find returns the grant of a token, nil if it has ended.
func (k *grants) find(ctx context.Context, h handle) (*grant, error) {
	g := new(grant)
	found, err := k.get(ctx, kindGrant, k.owner(h), h.key(), g)
	if err != nil || !found {
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
		if err := k.store.DeleteRecord(ctx, kindGrant, k.owner(h), one.key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// handleOf returns the handle of a grant, by the claims of an access token.
func handleOf(subject, grantID string) (h handle, ok bool) {
	h = newHandle(subject)
	raw, err := hex.DecodeString(grantID)
	return h, err == nil && copy(h.id[:], raw) == len(h.id) && len(raw) == len(h.id)
}
