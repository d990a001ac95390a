// Module dte15 computes the donation voucher (DTE-15).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
