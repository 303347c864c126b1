package hetzner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Scope is vague: Hetzner's API names no project. A token belongs to one project for ever, so that equal
// tokens are the same project; another token proves to be of it by showing a server that was recorded with
// the former one. The name is the beginning of a hash, from which no token follows.
func (a *account) Scope(context.Context, cloud.Class) (string, error) {
	const length = 6
	sum := sha256.Sum256([]byte("hetzner token " + a.token))
	return cloud.VagueScope("project of the token " + hex.EncodeToString(sum[:length])), nil
}
