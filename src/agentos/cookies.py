"""What every HTTP client of ours does with cookies: it takes none and sends none. Pure.

A cookie would tell a server which calls belong together, also calls with different keys.
"""

from http.cookiejar import DefaultCookiePolicy

NO_COOKIES = DefaultCookiePolicy(allowed_domains=())
