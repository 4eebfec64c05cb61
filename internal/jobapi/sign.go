package jobapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook, by standardwebhooks.com.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// minSecret is the least length of the secret of webhooks, in bytes.
const minSecret = 16

// Secret signs webhooks.
type Secret struct{ key []byte }

// NewSecret reads a secret: "whsec_" and base64, or any other text as it is.
func NewSecret(text string) (Secret, error) {
	key := []byte(text)
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return Secret{}, errors.New(`the secret of webhooks begins with "whsec_" and goes on with what is not base64`)
		}
	}
	if len(key) < minSecret {
		return Secret{}, fmt.Errorf("the secret of webhooks is too short: want at least %d bytes", minSecret)
	}
	return Secret{key}, nil
}

// sign returns the value of [HeaderSignature].
func (s Secret) sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// tolerance bounds the age of a webhook, and how far in the future it may be.
const tolerance = 5 * time.Minute

// Verify checks a webhook that has arrived against the secret: for receivers, and tests.
func (s Secret) Verify(h http.Header, body []byte, now time.Time) error {
	seconds, err := strconv.ParseInt(h.Get(HeaderTimestamp), 10, 64)
	if err != nil {
		return errors.New("verifying the webhook: it has no time")
	}
	at := time.Unix(seconds, 0)
	if age := now.Sub(at); age > tolerance || age < -tolerance {
		return errors.New("verifying the webhook: it is too old, or from the future")
	}
	want := s.sign(h.Get(HeaderID), at, body)
	for given := range strings.FieldsSeq(h.Get(HeaderSignature)) {
		if hmac.Equal([]byte(given), []byte(want)) {
			return nil
		}
	}
	return errors.New("verifying the webhook: the signature is wrong")
}
