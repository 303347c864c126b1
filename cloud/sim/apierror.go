package sim

import (
	"fmt"
	"net/http"
	"time"
)

// The codes of the API's errors.
const (
	CodeInvalidParameter     = "InvalidParameter"
	CodeInvalidRegion        = "InvalidRegion"
	CodeInvalidZone          = "InvalidZone"
	CodeInvalidInstanceType  = "InvalidInstanceType"
	CodeInvalidImage         = "InvalidImage"
	CodeInvalidNetwork       = "InvalidNetwork"
	CodeUserDataTooLarge     = "UserDataTooLarge"
	CodeInvalidCredentials   = "InvalidCredentials"
	CodeAccessDenied         = "AccessDenied"
	CodeNotFound             = "NotFound"
	CodeTokenMismatch        = "TokenMismatch"
	CodeTokenExpired         = "TokenExpired"
	CodeIncorrectState       = "IncorrectState"
	CodeInsufficientCapacity = "InsufficientCapacity"
	CodeQuotaExceeded        = "QuotaExceeded"
	CodeAddressesExhausted   = "AddressesExhausted"
	CodeRequestLimitExceeded = "RequestLimitExceeded"
	CodeInternalError        = "InternalError"
	CodeServiceUnavailable   = "ServiceUnavailable"
)

// APIError is how the API says no.
type APIError struct {
	Status     int      `json:"-"` // of HTTP; 0 means that no answer arrives
	Code       string   `json:"code"`
	Message    string   `json:"message"`
	RetryAfter Duration `json:"retryAfter,omitempty"`

	// What is exhausted.
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`

	hang bool // no answer ever arrives
}

// Error is "<code>: <message>".
func (e *APIError) Error() string { return e.Code + ": " + e.Message }

// refuse returns an APIError with the usual status of its code.
func refuse(code, format string, args ...any) *APIError {
	return &APIError{Status: statusOf(code), Code: code, Message: fmt.Sprintf(format, args...)}
}

// statusOf is the HTTP status that goes with a code.
func statusOf(code string) int {
	switch code {
	case CodeInvalidCredentials:
		return http.StatusUnauthorized
	case CodeAccessDenied:
		return http.StatusForbidden
	case CodeNotFound:
		return http.StatusNotFound
	case CodeTokenMismatch, CodeTokenExpired, CodeIncorrectState, CodeInsufficientCapacity, CodeQuotaExceeded, CodeAddressesExhausted:
		return http.StatusConflict
	case CodeRequestLimitExceeded:
		return http.StatusTooManyRequests
	case CodeInternalError:
		return http.StatusInternalServerError
	case CodeServiceUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// throttled is the answer to one call too many.
func throttled(after time.Duration) *APIError {
	e := refuse(CodeRequestLimitExceeded, "too many calls")
	e.RetryAfter = Duration(after)
	return e
}
