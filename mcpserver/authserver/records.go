package authserver

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/store"
)

// records are what a server keeps in the store: values, each sealed for its place.
type records struct {
	store store.Records
	box   *seal.Keys
	stem  string // of the owners
}

// ownerOf returns the owner of a person's records.
func (k *records) ownerOf(subject string) string { return k.stem + visit.Digest(subject) }

// put keeps a value, sealed for its place.
func (k *records) put(ctx context.Context, kind, owner, key string, value any, expires time.Time) error {
	plain, err := jsonx.Marshal(value)
	if err != nil {
		return err
	}
	box := k.box.Seal(plain, []byte(kind+"\x00"+owner+"\x00"+key))
	raw := strconv.AppendQuote(nil, base64.StdEncoding.EncodeToString(box))
	return k.store.PutRecord(ctx, store.Record{Kind: kind, Owner: owner, Key: key, Value: raw, Expires: expires})
}

// get reads a value, if it is there.
func (k *records) get(ctx context.Context, kind, owner, key string, value any) (found bool, err error) {
	r, err := k.store.Record(ctx, kind, owner, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, k.openRecord(&r, value)
}

func (k *records) openRecord(r *store.Record, value any) error {
	var box []byte
	err := jsonx.Unmarshal(r.Value, &box)
	if err == nil {
		box, err = k.box.Open(box, []byte(r.Kind+"\x00"+r.Owner+"\x00"+r.Key))
	}
	if err == nil {
		err = jsonx.Unmarshal(box, value)
	}
	if err != nil {
		return fmt.Errorf("the record %s of the authorization server cannot be opened: was the key (TROUPE_KEY, or the key file) replaced? (%w)", r.Kind, err)
	}
	return nil
}
