package store

import "time"

// Sealed is a secret as a store keeps it: encrypted, so that the file of the store gives
// nothing away. Kind and Key are in clear.
type Sealed struct {
	Kind string `json:"kind"` // such as "token"; held to the rule for IDs
	Key  string `json:"key"`  // identifies it within its kind; at most [MaxText] bytes

	// Version is the writer's: greater than that of the entry that is replaced. Part of what
	// is authenticated, so that an older value cannot stand in the place of a newer one.
	Version int64     `json:"version"`
	Value   []byte    `json:"value"`   // at most [MaxSealed] bytes
	Updated time.Time `json:"updated"` // set by the store
}

// Check reports the first rule that s breaks.
func (s Sealed) Check() error {
	if err := CheckSealed(s.Kind, s.Key); err != nil {
		return err
	}
	switch {
	case s.Version <= 0:
		return &InvalidError{"sealed.Version", "is not above zero"}
	case len(s.Value) == 0:
		return &InvalidError{"sealed.Value", "is empty"}
	case len(s.Value) > MaxSealed:
		return &LimitError{"sealed.Value", len(s.Value), MaxSealed}
	}
	return nil
}

// CheckSealed checks what identifies a secret.
func CheckSealed(kind, key string) error {
	if err := CheckID("sealed.Kind", kind); err != nil {
		return err
	}
	if key == "" {
		return &InvalidError{"sealed.Key", "is empty"}
	}
	return CheckText("sealed.Key", key)
}

// CheckSealedPage checks what selects a page of secrets.
func CheckSealedPage(kind, after string) error {
	if err := CheckID("sealed.Kind", kind); err != nil {
		return err
	}
	return CheckText("after", after)
}

// CheckSealedLease checks who wants a lease on which secret, and for how long.
func CheckSealedLease(kind, key, owner string, ttl time.Duration) error {
	if err := CheckSealed(kind, key); err != nil {
		return err
	}
	return CheckLease(owner, ttl)
}
