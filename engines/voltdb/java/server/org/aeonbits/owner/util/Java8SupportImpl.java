package org.aeonbits.owner.util;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import org.aeonbits.owner.util.Reflection.Java8Support;

/** Default methods of interfaces as Java 16 and later call them; owner-java8 fails there. */
class Java8SupportImpl implements Java8Support {
    @Override
    public boolean isDefault(Method method) {
        return method.isDefault();
    }

    @Override
    public Object invokeDefaultMethod(Object proxy, Method method, Object[] arguments)
            throws Throwable {
        return InvocationHandler.invokeDefault(proxy, method, arguments);
    }
}
