package azure

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/binary"
	"math/big"
	"sync"
)

// spareKey returns the public SSH key for classes without one, because Azure wants one. It is made once in
// each process, and its private half is dropped at once, so that it opens no VM. MCM makes one for each call.
// Another process sends another one, which is harmless: If-None-Match refuses its request if the VM exists.
var spareKey = sync.OnceValue(func() string {
	const bits = 2048 // the least that Azure takes
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err) // only for a length that is not allowed
	}
	public := field(nil, []byte("ssh-rsa"))
	public = field(public, positive(big.NewInt(int64(private.E))))
	public = field(public, positive(private.N))
	return "ssh-rsa " + base64.StdEncoding.EncodeToString(public)
})

// field appends a string of the wire format of SSH (RFC 4251, section 5).
func field(to, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(text))), text...) //nolint:gosec // some hundred bytes
}

// positive returns a number as the wire format has it: a zero byte keeps it from being negative.
func positive(n *big.Int) []byte {
	text := n.Bytes()
	if len(text) > 0 && text[0]&0x80 != 0 {
		return append([]byte{0}, text...)
	}
	return text
}
