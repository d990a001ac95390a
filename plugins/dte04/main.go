// Module dte04 computes the remission note (DTE-04).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
